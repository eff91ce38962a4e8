#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "libmeg/base/stopwatch.h"
#include "libmeg/base/thread_pool.h"
#include "libmeg/dataset/index_format.h"
#include "libmeg/dataset/repair_dataset.h"
#include "tools/common/flags/flags.h"
#include "tools/common/interruption.h"
#include "tools/common/json_output.h"
#include "tools/common/progress_bar.h"
#include "tools/common/report.h"
#include "tools/dataset_tool/commands.h"

namespace meg::tools {
namespace {

struct RepairArguments {
  std::string prefix;
  std::optional<std::string> output_prefix, dtype;
  std::optional<int64_t> eod;
  int64_t workers = available_processors();
  bool in_place = false, copy = false, drop_tail = false, json = false;
};

std::optional<int> parse(int argc, const char* const* argv, RepairArguments& arguments) {
  Flags flags(
      "dataset_tool repair",
      "writes the whole documents of a damaged dataset as another one: of an .idx or a .bin "
      "that was cut off, of lengths without their end-of-document tokens, or of a .bin "
      "alone.");
  flags.examples(
      {"dataset_tool repair broken_text_document --output-prefix mended_text_document",
       "dataset_tool repair broken_text_document --eod 50256 --dtype uint16 --output-prefix mended",
       "dataset_tool repair broken_text_document --in-place"});
  flags.positional("PREFIX", &arguments.prefix, "the dataset, may end in .bin or .idx");
  flags.group("Documents");
  flags
      .value("--eod", &arguments.eod, "ID",
             "find the documents in .bin by this end-of-document token, without .idx")
      .range(0, INT64_MAX);
  flags
      .value("--dtype", &arguments.dtype, "DTYPE",
             "with --eod: type of the tokens (default: what .idx says)")
      .choices({"uint8", "int8", "uint16", "int16", "int32", "int64"});
  flags.toggle("--drop-tail", &arguments.drop_tail,
               "with --eod: leave out the tokens after the last end-of-document token");
  flags.group("Output");
  flags.value("--output-prefix", &arguments.output_prefix, "PREFIX", "name of the new dataset");
  flags.toggle("--in-place", &arguments.in_place,
               "replace the damaged files, which are kept as PREFIX.idx.old and PREFIX.bin.old");
  flags.toggle("--copy", &arguments.copy,
               "copy the tokens (default: a view, whose PREFIX.bin is a link to the dataset's)");
  flags.toggle("--json", &arguments.json, "print one JSON object");
  flags.group("Running");
  flags.value("--workers", &arguments.workers, "N", "threads that read .bin").range(1, 4096);
  if (const std::optional<int> code = flags.parse(argc, argv)) return code;
  const auto usage = [](std::string text) {
    return fail_usage(Status(StatusCode::kInvalidArgument, std::move(text)));
  };
  if (arguments.output_prefix.has_value() == arguments.in_place) {
    return usage("expected either --output-prefix or --in-place");
  }
  if (arguments.in_place && arguments.copy) return usage("--copy: not with --in-place");
  if (!arguments.eod && (arguments.dtype || arguments.drop_tail)) {
    return usage("--dtype and --drop-tail: only with --eod");
  }
  return std::nullopt;
}

void print_summary(const RepairArguments& arguments, const dataset::RepairSummary& summary,
                   double seconds) {
  const std::string output = arguments.output_prefix.value_or(arguments.prefix);
  const bool is_written = !summary.found.empty();
  if (arguments.json) {
    nlohmann::ordered_json object = json_object();
    object["dataset"] = is_written ? nlohmann::ordered_json(output) : nullptr;
    object["found"] = summary.found;
    object["view_of"] = summary.view ? nlohmann::ordered_json(summary.view->bin) : nullptr;
    object["kept"] = summary.kept;
    object["documents"] = summary.documents;
    object["lost_documents"] = summary.lost_documents;
    object["sequences"] = summary.sequences;
    object["tokens"] = summary.items;
    object["unused_bytes"] = summary.unused_bytes;
    object["seconds"] = seconds;
    print_json(object);
    return;
  }
  for (const std::string& what : summary.found) fmt::print("found: {}\n", what);
  if (!is_written) fmt::print("nothing to repair\n");
  fmt::print("documents: {}\n", summary.documents);
  if (summary.lost_documents > 0) fmt::print("lost documents: {}\n", summary.lost_documents);
  fmt::print("sequences: {}\ntokens: {}\n", summary.sequences, summary.items);
  if (summary.unused_bytes > 0) fmt::print("bytes left out: {}\n", summary.unused_bytes);
  fmt::print("seconds: {:.3f}\n", seconds);
  for (const std::string& old : summary.kept) fmt::print("kept: {}\n", old);
  if (summary.view) fmt::print("view of: {}\n", summary.view->bin);
  if (is_written) print_written_dataset(dataset::dataset_prefix(output), summary.view.has_value());
  std::fflush(stdout);
}

}  // namespace

int repair_main(int argc, const char* const* argv) {
  RepairArguments arguments;
  if (const std::optional<int> code = parse(argc, argv, arguments)) return *code;
  stop_at_signals();
  const Stopwatch work;
  if (arguments.output_prefix) note_new_folders(*arguments.output_prefix);
  ProgressBar bar(0);
  const dataset::RepairOptions options{
      .eod = arguments.eod,
      .dtype = arguments.dtype ? dtype_from_name(*arguments.dtype) : std::nullopt,
      .drop_tail = arguments.drop_tail,
      .copy = arguments.copy,
      .workers = static_cast<int>(arguments.workers),
      .progress = bar.interruptible_callback(),
  };
  const Result<dataset::RepairSummary> summary =
      dataset::repair_dataset(arguments.prefix, arguments.output_prefix, options);
  bar.clear();
  if (!summary.has_value()) return fail(summary.error());
  print_summary(arguments, *summary, work.seconds());
  return 0;
}

}  // namespace meg::tools
