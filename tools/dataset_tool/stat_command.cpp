#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "libmeg/base/thread_pool.h"
#include "libmeg/dataset/dataset_statistics.h"
#include "tools/common/flags/flags.h"
#include "tools/common/found_instead.h"
#include "tools/common/interruption.h"
#include "tools/common/json_output.h"
#include "tools/common/progress_bar.h"
#include "tools/common/report.h"
#include "tools/dataset_tool/commands.h"

namespace meg::tools {
namespace {

using nlohmann::ordered_json;

struct StatArguments {
  std::string prefix;
  int64_t top = 10;
  int64_t workers = available_processors();
  bool json = false;
};

std::optional<int> parse(int argc, const char* const* argv, StatArguments& arguments) {
  Flags flags("dataset_tool stat",
              "reads every token of a dataset: how long documents are, which tokens are the most "
              "frequent, and which documents are there more than once.");
  flags.examples({"dataset_tool stat corpus_text_document",
                  "dataset_tool stat corpus_text_document --top 100 --json"});
  flags.positional("PREFIX", &arguments.prefix, "the dataset, may end in .bin or .idx");
  flags.group("Output");
  flags.value("--top", &arguments.top, "N", "tokens and documents that are listed")
      .range(0, 1 << 20);
  flags.toggle("--json", &arguments.json, "print one JSON object");
  flags.group("Running");
  flags.value("--workers", &arguments.workers, "N", "threads that read").range(1, 4096);
  return flags.parse(argc, argv);
}

/// The whole answer; the text is made from it.
ordered_json answer(const StatArguments& arguments, const dataset::DatasetStatistics& found) {
  ordered_json object = json_object();
  object["prefix"] = arguments.prefix;
  object["documents"] = found.documents;
  object["empty_documents"] = found.empty_documents;
  object["sequences"] = found.sequences;
  object["tokens"] = found.items;
  object["document_lengths"] = {{"min", found.min},
                                {"median", found.median},
                                {"p90", found.p90},
                                {"p99", found.p99},
                                {"max", found.max}};
  object["distinct_tokens"] =
      std::ranges::count_if(found.token_counts, [](int64_t count) { return count > 0; });
  object["most_frequent_tokens"] = ordered_json::array();
  for (const auto& [id, count] : found.most_frequent_tokens(static_cast<size_t>(arguments.top))) {
    object["most_frequent_tokens"].push_back({{"id", id}, {"count", count}});
  }
  object["duplicate_documents"] = found.duplicates;
  object["duplicate_tokens"] = found.duplicate_items;
  object["most_frequent_documents"] = ordered_json::array();
  for (const auto& [document, count, items] : found.most_frequent) {
    object["most_frequent_documents"].push_back(
        {{"document", document}, {"count", count}, {"tokens", items}});
  }
  return object;
}

void print_text(const ordered_json& object, int64_t tokens) {
  for (const char* const name : {"documents", "empty_documents", "sequences", "tokens"}) {
    fmt::print("{:<20} {}\n", name, object[name].get<int64_t>());
  }
  const ordered_json& lengths = object["document_lengths"];
  fmt::print("{:<20} min {}, median {}, p90 {}, p99 {}, max {}\n", "document_lengths",
             lengths["min"].get<int64_t>(), lengths["median"].get<int64_t>(),
             lengths["p90"].get<int64_t>(), lengths["p99"].get<int64_t>(),
             lengths["max"].get<int64_t>());
  for (const char* const name : {"distinct_tokens", "duplicate_documents", "duplicate_tokens"}) {
    fmt::print("{:<20} {}\n", name, object[name].get<int64_t>());
  }
  if (!object["most_frequent_tokens"].empty()) fmt::print("\n{:>12}  {:>14}\n", "token", "count");
  for (const ordered_json& token : object["most_frequent_tokens"]) {
    const auto count = token["count"].get<int64_t>();
    fmt::print("{:>12}  {:>14}  {:5.2f} %\n", token["id"].get<int64_t>(), count,
               100 * static_cast<double>(count) / static_cast<double>(tokens));
  }
  if (object["most_frequent_documents"].empty()) return;
  fmt::print("\n{:>12}  {:>14}  {:>12}\n", "document", "times there", "tokens");
  for (const ordered_json& document : object["most_frequent_documents"]) {
    fmt::print("{:>12}  {:>14}  {:>12}\n", document["document"].get<int64_t>(),
               document["count"].get<int64_t>(), document["tokens"].get<int64_t>());
  }
}

Status run(const StatArguments& arguments) {
  const Result<dataset::IndexedDataset> set = dataset::IndexedDataset::open(arguments.prefix);
  if (!set.has_value()) return no_dataset(arguments.prefix, set.error());
  ProgressBar bar(0);
  const auto found =
      dataset::dataset_statistics(*set, {.workers = static_cast<int>(arguments.workers),
                                         .most = static_cast<size_t>(arguments.top),
                                         .progress = bar.interruptible_callback()});
  bar.clear();
  MEG_RETURN_IF_ERROR(found.status());
  const ordered_json object = answer(arguments, *found);
  if (arguments.json) {
    print_json(object);
  } else {
    print_text(object, found->items);
  }
  std::fflush(stdout);
  return {};
}

}  // namespace

int stat_main(int argc, const char* const* argv) {
  StatArguments arguments;
  if (const std::optional<int> code = parse(argc, argv, arguments)) return *code;
  stop_at_signals();
  const Status status = run(arguments);
  return status.ok() ? 0 : fail(status);
}

}  // namespace meg::tools
