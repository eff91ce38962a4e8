#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "libmeg/base/stopwatch.h"
#include "libmeg/dataset/convert_dataset.h"
#include "libmeg/dataset/index_format.h"
#include "tools/common/flags/flags.h"
#include "tools/common/found_instead.h"
#include "tools/common/interruption.h"
#include "tools/common/json_output.h"
#include "tools/common/progress_bar.h"
#include "tools/common/report.h"
#include "tools/dataset_tool/commands.h"

namespace meg::tools {
namespace {

struct ConvertArguments {
  std::string prefix, output_prefix;
  std::optional<std::string> dataset_impl, dtype;
  bool json = false;
};

std::optional<int> parse(int argc, const char* const* argv, ConvertArguments& arguments) {
  Flags flags(
      "dataset_tool convert",
      "writes a dataset in another format (MMIDIDX or TNTIDX) or with items of another type.");
  flags.examples(
      {"dataset_tool convert old_text_document --dataset-impl mmap --output-prefix "
       "new_text_document",
       "dataset_tool convert corpus_text_document --dtype int32 --output-prefix "
       "wide_text_document"});
  flags.positional("PREFIX", &arguments.prefix, "the dataset, may end in .bin or .idx");
  flags.group("Output");
  flags.value("--output-prefix", &arguments.output_prefix, "PREFIX", "name of the new dataset")
      .required();
  flags
      .value("--dataset-impl", &arguments.dataset_impl, "IMPL",
             "mmap: MMIDIDX; lazy or cached, one as the other: TNTIDX (default: as it is)")
      .choices({"mmap", "lazy", "cached"});
  flags
      .value("--dtype", &arguments.dtype, "DTYPE",
             "type of the items, which must hold all of them (default: as it is)")
      .choices({"uint8", "int8", "uint16", "int16", "int32", "int64", "float32", "float64"});
  flags.toggle("--json", &arguments.json, "print one JSON object");
  return flags.parse(argc, argv);
}

void print_summary(const ConvertArguments& arguments, const dataset::ConvertSummary& summary,
                   double seconds) {
  if (arguments.json) {
    nlohmann::ordered_json object = json_object();
    object["dataset"] = arguments.output_prefix;
    object["format"] = dataset::index_format_name(summary.format);
    object["dtype"] = dtype_name(summary.dtype);
    object["documents"] = summary.documents;
    object["sequences"] = summary.sequences;
    object["tokens"] = summary.items;
    object["seconds"] = seconds;
    print_json(object);
    return;
  }
  fmt::print("format: {}\ndtype: {}\ndocuments: {}\nsequences: {}\ntokens: {}\nseconds: {:.3f}\n",
             dataset::index_format_name(summary.format), dtype_name(summary.dtype),
             summary.documents, summary.sequences, summary.items, seconds);
  print_written_dataset(dataset::dataset_prefix(arguments.output_prefix));
  std::fflush(stdout);
}

Status run(const ConvertArguments& arguments) {
  const Stopwatch work;
  const Result<dataset::IndexedDataset> set =
      dataset::IndexedDataset::open(arguments.prefix, {.flatten = true});
  if (!set.has_value()) return no_dataset(arguments.prefix, set.error());
  note_new_folders(arguments.output_prefix);
  ProgressBar bar(0);
  dataset::ConvertOptions options{.progress = bar.interruptible_callback()};
  if (arguments.dataset_impl) {
    options.format = *arguments.dataset_impl == "mmap" ? dataset::IndexFormat::kMmididx
                                                       : dataset::IndexFormat::kTntidx;
  }
  if (arguments.dtype) options.dtype = dtype_from_name(*arguments.dtype);
  const auto summary = dataset::convert_dataset(*set, arguments.output_prefix, options);
  bar.clear();
  MEG_RETURN_IF_ERROR(summary.status());
  print_summary(arguments, *summary, work.seconds());
  if (set->flattened()) {
    note("items of several dimensions were written as sequences of their values, row after row");
  }
  return {};
}

}  // namespace

int convert_main(int argc, const char* const* argv) {
  ConvertArguments arguments;
  if (const std::optional<int> code = parse(argc, argv, arguments)) return *code;
  stop_at_signals();
  const Status status = run(arguments);
  return status.ok() ? 0 : fail(status);
}

}  // namespace meg::tools
