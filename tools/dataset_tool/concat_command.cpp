#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "libmeg/base/stopwatch.h"
#include "libmeg/dataset/dataset_view.h"
#include "libmeg/dataset/index_format.h"
#include "libmeg/dataset/indexed_dataset.h"
#include "libmeg/dataset/merge_datasets.h"
#include "tools/common/document_orders.h"
#include "tools/common/flags/flags.h"
#include "tools/common/found_instead.h"
#include "tools/common/interruption.h"
#include "tools/common/json_output.h"
#include "tools/common/progress_bar.h"
#include "tools/common/report.h"
#include "tools/dataset_tool/commands.h"

namespace meg::tools {
namespace {

struct ConcatArguments {
  std::vector<std::string> prefixes;
  std::string output_prefix;
  bool copy = false, json = false;
};

std::optional<int> parse(int argc, const char* const* argv, ConcatArguments& arguments) {
  Flags flags("dataset_tool concat",
              "joins datasets one after another: views of one .bin as a view, others as a copy.");
  flags.examples(
      {"dataset_tool concat books_text_document wiki_text_document --output-prefix both",
       "dataset_tool concat corpus_text_document corpus_text_document --output-prefix twice"});
  flags.positional_list("PREFIX", &arguments.prefixes,
                        "the datasets, each as often as it is named; may end in .bin or .idx");
  flags.group("Output");
  flags.value("--output-prefix", &arguments.output_prefix, "PREFIX", "name of the new dataset")
      .required();
  flags.toggle("--copy", &arguments.copy,
               "copy the tokens (default: only where they are in several .bin files, as an .idx "
               "points into one)");
  flags.toggle("--json", &arguments.json, "print one JSON object");
  return flags.parse(argc, argv);
}

struct ConcatSummary {
  int64_t documents = 0, sequences = 0, items = 0;
  std::optional<dataset::ViewOf> view;
  std::vector<std::string> notes;
};

Result<ConcatSummary> concat_views(const ConcatArguments& arguments,
                                   const ProgressCallback& progress) {
  std::vector<dataset::IndexedDataset> sets;
  for (const std::string& prefix : arguments.prefixes) {
    Result<dataset::IndexedDataset> set = dataset::IndexedDataset::open(prefix);
    if (!set.has_value()) return no_dataset(prefix, set.error());
    sets.push_back(*std::move(set));
  }
  std::vector<dataset::ViewPart> parts;
  for (const dataset::IndexedDataset& set : sets) {
    parts.push_back({&set, in_order(others({}, set.document_count()))});
  }
  MEG_ASSIGN_OR_RETURN(
      dataset::ViewSummary summary,
      dataset::write_dataset_view(parts, arguments.output_prefix, {.progress = progress}));
  return ConcatSummary{summary.documents, summary.sequences, summary.items, summary.view,
                       std::move(summary.notes)};
}

Result<ConcatSummary> concat(const ConcatArguments& arguments, const ProgressCallback& progress) {
  const bool is_view = !arguments.copy && dataset::share_bin(arguments.prefixes);
  if (is_view) return concat_views(arguments, progress);
  MEG_ASSIGN_OR_RETURN(
      dataset::MergeSummary summary,
      dataset::merge_datasets(arguments.prefixes, arguments.output_prefix, {.progress = progress}));
  if (!arguments.copy) {
    summary.notes.emplace_back(
        "copied: the tokens are in several .bin files, and an .idx points into one");
  }
  return ConcatSummary{summary.documents, summary.sequences, summary.items, std::nullopt,
                       std::move(summary.notes)};
}

void print_summary(const ConcatArguments& arguments, const ConcatSummary& summary, double seconds) {
  if (arguments.json) {
    nlohmann::ordered_json object = json_object();
    object["dataset"] = arguments.output_prefix;
    object["view_of"] = summary.view ? nlohmann::ordered_json(summary.view->bin) : nullptr;
    object["datasets"] = arguments.prefixes.size();
    object["documents"] = summary.documents;
    object["sequences"] = summary.sequences;
    object["tokens"] = summary.items;
    object["seconds"] = seconds;
    print_json(object);
    return;
  }
  fmt::print("datasets: {}\ndocuments: {}\nsequences: {}\ntokens: {}\nseconds: {:.3f}\n",
             arguments.prefixes.size(), summary.documents, summary.sequences, summary.items,
             seconds);
  if (summary.view) fmt::print("view of: {}\n", summary.view->bin);
  print_written_dataset(dataset::dataset_prefix(arguments.output_prefix), summary.view.has_value());
  std::fflush(stdout);
}

}  // namespace

int concat_main(int argc, const char* const* argv) {
  ConcatArguments arguments;
  if (const std::optional<int> code = parse(argc, argv, arguments)) return *code;
  stop_at_signals();
  const Stopwatch work;
  note_new_folders(arguments.output_prefix);
  ProgressBar bar(0);
  const Result<ConcatSummary> summary = concat(arguments, bar.interruptible_callback());
  bar.clear();
  if (!summary.has_value()) return fail(summary.error());
  print_summary(arguments, *summary, work.seconds());
  for (const std::string& text : summary->notes) note(text);
  return 0;
}

}  // namespace meg::tools
