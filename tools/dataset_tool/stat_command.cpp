#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "libmeg/base/thread_pool.h"
#include "libmeg/dataset/dataset_statistics.h"
#include "libmeg/dataset/dataset_tokenizer.h"
#include "libmeg/megatron/argument_table.h"
#include "libmeg/text/printable.h"
#include "libmeg/tokenizer/registry/open_tokenizer.h"
#include "tools/common/byte_size.h"
#include "tools/common/flag_groups/tokenizer_flags.h"
#include "tools/common/flags/flags.h"
#include "tools/common/found_instead.h"
#include "tools/common/html_page.h"
#include "tools/common/interruption.h"
#include "tools/common/json_output.h"
#include "tools/common/progress_bar.h"
#include "tools/common/report.h"
#include "tools/dataset_tool/commands.h"
#include "tools/dataset_tool/stat_page.h"

namespace meg::tools {
namespace {

using nlohmann::ordered_json;

/// Tokens of a document that a page shows.
constexpr size_t kShownTokens = 60;
/// Ranks of token_frequencies between a rank and ten times it.
constexpr double kRanksOfDecade = 12;
constexpr double kShares[] = {0.25, 0.5, 0.75, 0.9, 0.99};

struct StatArguments {
  std::string prefix;
  int64_t top = 10;
  int64_t workers = available_processors();
  std::optional<std::string> html;
  bool json = false;
  megatron::ArgumentValues args;
  tokenizer::TokenizerOptions tokenizer;
};

ArgumentScope tokenizer_scope() {
  return {.reads = megatron::fields_read_by([](const megatron::FieldLookup& lookup) {
            megatron::FieldReader args(lookup);
            tokenizer::TokenizerOptions().take_fields(args);
          }),
          .required = {},
          .idle = {},
          .idle_fields = {}};
}

std::optional<int> parse(int argc, const char* const* argv, StatArguments& arguments) {
  Flags flags("dataset_tool stat",
              "reads every token of a dataset: how long documents are, which tokens are the most "
              "frequent, and which documents are there more than once.");
  flags.examples({"dataset_tool stat corpus_text_document",
                  "dataset_tool stat corpus_text_document --top 100 --json",
                  "dataset_tool stat corpus_text_document --html corpus.html --tokenizer-type "
                  "GPT2BPETokenizer --vocab-file gpt2-vocab.json --merge-file gpt2-merges.txt"});
  flags.positional("PREFIX", &arguments.prefix, "the dataset, may end in .bin or .idx");
  flags.group("Output");
  flags.value("--top", &arguments.top, "N", "tokens and documents that are listed")
      .range(0, 1 << 20);
  flags.value("--html", &arguments.html, "FILE", "also write an HTML page with pictures");
  flags.toggle("--json", &arguments.json, "print one JSON object");
  flags.group("Running");
  flags.value("--workers", &arguments.workers, "N", "threads that read").range(1, 4096);
  flags.arguments(megatron::argument_rows(megatron::ArgumentFamily::kPreprocess), tokenizer_scope(),
                  &arguments.args);
  if (const std::optional<int> code = flags.parse(argc, argv)) return code;
  const megatron::FieldLookup fields = arguments.args.lookup();
  megatron::FieldReader args(fields);
  arguments.tokenizer.take_fields(args);
  arguments.tokenizer.vocab_extra_ids = 0;  // As preprocess_data.
  return args.status().ok() ? std::nullopt : std::optional(fail_usage(args.status()));
}

/// The tokenizer that the command line names; null where it names none.
Result<std::unique_ptr<tokenizer::Tokenizer>> open_named(const StatArguments& arguments,
                                                         const std::string& prefix) {
  if (!tokenizer::names_tokenizer(arguments.tokenizer)) {
    return std::unique_ptr<tokenizer::Tokenizer>();
  }
  MEG_RETURN_IF_ERROR(check_dataset_tokenizers({&prefix, 1}, arguments.tokenizer));
  return tokenizer::open_tokenizer(arguments.tokenizer);
}

/// Adds how many bytes of text the tokens are. Special tokens are none.
Status add_text_bytes(const dataset::DatasetStatistics& found,
                      const tokenizer::Tokenizer& tokenizer, ordered_json& object) {
  std::unordered_set<int32_t> special;
  for (const tokenizer::SpecialToken& token : tokenizer.special_tokens()) special.insert(token.id);
  if (const auto eod = tokenizer.eod()) special.insert(*eod);
  int64_t bytes = 0, tokens = 0;
  for (size_t id = 0; id < found.token_counts.size(); ++id) {
    const int64_t count = found.token_counts[id];
    if (count == 0 || special.contains(static_cast<int32_t>(id))) continue;
    const auto text = tokenizer.token_bytes(static_cast<int32_t>(id));
    if (!text) {
      return make_error(StatusCode::kInvalidArgument,
                        "expected ids of the tokenizer, found {}: the dataset was made with "
                        "another one",
                        id);
    }
    bytes += count * std::ssize(*text);
    tokens += count;
  }
  object["special_tokens"] = found.items - tokens;
  object["text_bytes"] = bytes;
  object["bytes_per_token"] =
      tokens == 0 ? ordered_json(nullptr)
                  : ordered_json(static_cast<double>(bytes) / static_cast<double>(tokens));
  return {};
}

/// Adds counts of the tokens by their ranks, which are evenly spread over a logarithmic axis, and
/// how many of the most frequent ones make a share of all.
void add_frequencies(const dataset::DatasetStatistics& found, ordered_json& object) {
  std::vector<int64_t> counts;
  std::ranges::copy_if(found.token_counts, std::back_inserter(counts),
                       [](int64_t count) { return count > 0; });
  std::ranges::sort(counts, std::greater());
  ordered_json list = ordered_json::array(), shares = ordered_json::array();
  auto share = std::begin(kShares);
  int64_t sum = 0;
  double next = 1;
  for (size_t rank = 1; rank <= counts.size(); ++rank) {
    sum += counts[rank - 1];
    for (; share != std::end(kShares) &&
           static_cast<double>(sum) >= *share * static_cast<double>(found.items);
         ++share) {
      shares.push_back({{"share", *share}, {"tokens", rank}});
    }
    if (static_cast<double>(rank) < next && rank < counts.size()) continue;
    list.push_back({{"rank", rank}, {"count", counts[rank - 1]}});
    while (next <= static_cast<double>(rank)) next *= std::pow(10, 1 / kRanksOfDecade);
  }
  object["token_frequencies"] = std::move(list);
  object["tokens_of_share"] = std::move(shares);
}

/// The beginning of a document as text.
Result<std::string> beginning(const dataset::IndexedDataset& set, int64_t document,
                              const tokenizer::Tokenizer& tokenizer) {
  MEG_ASSIGN_OR_RETURN(const dataset::SequenceRange range, set.document(document));
  std::vector<int32_t> ids;
  for (int64_t at = range.begin; at < range.end && ids.size() < kShownTokens; ++at) {
    MEG_ASSIGN_OR_RETURN(const int64_t length, set.sequence_length(at));
    const size_t before = ids.size();
    ids.resize(std::min(kShownTokens, before + static_cast<size_t>(length)));
    MEG_RETURN_IF_ERROR(set.copy_tokens(at, 0, std::span(ids).subspan(before)));
  }
  return tokenizer.decode(ids);
}

/// The whole answer; the text and the page are made from it. tokenizer: may be null.
Result<ordered_json> answer(const StatArguments& arguments, const dataset::IndexedDataset& set,
                            const tokenizer::Tokenizer* tokenizer,
                            const dataset::DatasetStatistics& found) {
  MEG_ASSIGN_OR_RETURN(const auto recorded, dataset::read_dataset_tokenizer(set.prefix()));
  ordered_json object = json_object();
  object["prefix"] = arguments.prefix;
  object["dtype"] = dtype_name(set.dtype());
  object["tokenizer"] =
      recorded ? ordered_json(dataset::dataset_tokenizer_text(*recorded)) : nullptr;
  object["documents"] = found.documents;
  object["empty_documents"] = found.empty_documents;
  object["sequences"] = found.sequences;
  object["tokens"] = found.items;
  if (tokenizer != nullptr) MEG_RETURN_IF_ERROR(add_text_bytes(found, *tokenizer, object));
  object["document_lengths"] = {{"min", found.min},
                                {"median", found.median},
                                {"p90", found.p90},
                                {"p99", found.p99},
                                {"max", found.max}};
  object["length_histogram"] = ordered_json::array();
  for (const auto& [from, to, documents, items] : found.length_histogram) {
    object["length_histogram"].push_back(
        {{"from", from}, {"to", to}, {"documents", documents}, {"tokens", items}});
  }
  object["distinct_tokens"] =
      std::ranges::count_if(found.token_counts, [](int64_t count) { return count > 0; });
  object["most_frequent_tokens"] = ordered_json::array();
  for (const auto& [id, count] : found.most_frequent_tokens(static_cast<size_t>(arguments.top))) {
    ordered_json token = {{"id", id}, {"count", count}};
    if (tokenizer != nullptr) {
      const std::vector<int32_t> ids = {static_cast<int32_t>(id)};
      MEG_ASSIGN_OR_RETURN(token["text"], tokenizer->decode(ids));
    }
    object["most_frequent_tokens"].push_back(std::move(token));
  }
  add_frequencies(found, object);
  object["duplicate_documents"] = found.duplicates;
  object["duplicate_tokens"] = found.duplicate_items;
  object["most_frequent_documents"] = ordered_json::array();
  for (const auto& [document, count, items] : found.most_frequent) {
    ordered_json repeated = {{"document", document}, {"count", count}, {"tokens", items}};
    if (tokenizer != nullptr) {
      MEG_ASSIGN_OR_RETURN(repeated["text"], beginning(set, document, *tokenizer));
    }
    object["most_frequent_documents"].push_back(std::move(repeated));
  }
  return object;
}

void print_text(const ordered_json& object, int64_t tokens) {
  for (const char* const name : {"documents", "empty_documents", "sequences", "tokens"}) {
    fmt::print("{:<20} {}\n", name, object[name].get<int64_t>());
  }
  if (object.contains("bytes_per_token") && !object["bytes_per_token"].is_null()) {
    fmt::print("{:<20} {:.2f} ({} of text, without special tokens)\n", "bytes_per_token",
               object["bytes_per_token"].get<double>(),
               byte_size_text(object["text_bytes"].get<int64_t>()));
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
    fmt::print("{:>12}  {:>14}  {:5.2f} %{}\n", token["id"].get<int64_t>(), count,
               100 * static_cast<double>(count) / static_cast<double>(tokens),
               token.contains("text")
                   ? "  " + text::printable(token["text"].get_ref<const std::string&>())
                   : "");
  }
  if (object["most_frequent_documents"].empty()) return;
  fmt::print("\n{:>12}  {:>14}  {:>12}\n", "document", "times there", "tokens");
  for (const ordered_json& document : object["most_frequent_documents"]) {
    fmt::print("{:>12}  {:>14}  {:>12}{}\n", document["document"].get<int64_t>(),
               document["count"].get<int64_t>(), document["tokens"].get<int64_t>(),
               document.contains("text")
                   ? "  " + text::printable(document["text"].get_ref<const std::string&>())
                   : "");
  }
}

Status run(const StatArguments& arguments) {
  const Result<dataset::IndexedDataset> set = dataset::IndexedDataset::open(arguments.prefix);
  if (!set.has_value()) return no_dataset(arguments.prefix, set.error());
  // Before the tokens are read, so that a wrong one costs no time.
  MEG_ASSIGN_OR_RETURN(const auto tokenizer, open_named(arguments, set->prefix()));
  if (arguments.html) {
    MEG_RETURN_IF_ERROR(check_is_another_file(*arguments.html, set->prefix()));
    note_new_folders(*arguments.html);
  }
  ProgressBar bar(0);
  const auto found =
      dataset::dataset_statistics(*set, {.workers = static_cast<int>(arguments.workers),
                                         .most = static_cast<size_t>(arguments.top),
                                         .progress = bar.interruptible_callback()});
  bar.clear();
  MEG_RETURN_IF_ERROR(found.status());
  MEG_ASSIGN_OR_RETURN(const ordered_json object, answer(arguments, *set, tokenizer.get(), *found));
  if (arguments.html) MEG_RETURN_IF_ERROR(write_page(*arguments.html, stat_page(object)));
  if (arguments.json) {
    print_json(object);
  } else {
    print_text(object, found->items);
    if (arguments.html) {
      fmt::print("{}\n", written_text(*arguments.html, {&*arguments.html, 1}));
    }
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
