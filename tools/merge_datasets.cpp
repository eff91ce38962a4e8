// Several .bin/.idx datasets to one. Stands for Megatron-LM tools/merge_datasets.py.

#include "libmeg/dataset/merge_datasets.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "libmeg/base/dtype.h"
#include "libmeg/base/stopwatch.h"
#include "libmeg/dataset/index_format.h"
#include "tools/common/flags/flags.h"
#include "tools/common/interruption.h"
#include "tools/common/json_output.h"
#include "tools/common/progress_bar.h"
#include "tools/common/report.h"
#include "tools/common/run_program.h"

namespace meg::tools {
namespace {

struct Arguments {
  std::vector<std::string> inputs;
  std::vector<std::string> prefixes;
  std::string output_prefix;
  std::optional<std::string> key;
  std::optional<std::string> dtype;
  bool multimodal = false;
  bool view = false;
  bool json = false;
};

std::optional<int> parse(int argc, const char* const* argv, Arguments& arguments) {
  Flags flags("merge_datasets", "joins several .bin/.idx datasets into one, in order.");
  flags.examples({"merge_datasets --input parts --output-prefix corpus_text_document",
                  "merge_datasets --input parts --key text --output-prefix corpus_text_document",
                  "merge_datasets --input web_text_document books_text_document --output-prefix "
                  "both_text_document --dtype int32"});
  flags.usage("(--input FOLDER|PREFIX... | PREFIX...)");
  flags.group("Input");
  flags.list("--input", &arguments.inputs, "FOLDER|PREFIX...",
             "prefixes of datasets, and folders, whose datasets are sorted by name; at s3://, and "
             "beside a dataset of this name, folders end in a slash");
  flags.positional_list("PREFIX", &arguments.prefixes, "inputs, instead of --input").optional();
  flags.value("--key", &arguments.key, "KEY",
              "use only the datasets NAME_KEY_document or NAME_KEY_sentence in a folder");
  flags.toggle("--multimodal", &arguments.multimodal,
               "require that the datasets have a mode for every sequence");
  flags.toggle("--view", &arguments.view,
               "accept a .bin that is longer than the sequence lengths imply, as that of a view");
  flags.group("Output");
  flags
      .value("--output-prefix", &arguments.output_prefix, "PREFIX",
             "name of the dataset: PREFIX.bin and PREFIX.idx")
      .required();
  flags
      .value("--dtype", &arguments.dtype, "DTYPE",
             "widen all tokens to this type (default: all datasets must have the same)")
      .choices({"uint8", "int8", "uint16", "int16", "int32", "int64", "float32", "float64"});
  flags.toggle("--json", &arguments.json, "print one JSON object");
  if (const std::optional<int> code = flags.parse(argc, argv)) return code;
  if (arguments.inputs.empty() != arguments.prefixes.empty()) return std::nullopt;
  return fail_usage(make_error(StatusCode::kInvalidArgument,
                               "expected either --input or prefixes, found {}",
                               arguments.inputs.empty() ? "neither" : "both"));
}

Result<std::vector<std::string>> resolve_inputs(const Arguments& arguments) {
  std::vector<std::string> resolved;
  for (const std::string& input :
       arguments.inputs.empty() ? arguments.prefixes : arguments.inputs) {
    if (!dataset::is_dataset_folder(input)) {
      resolved.push_back(input);
      // Where both are there, and the folder has datasets, too, it may have been meant.
      std::error_code missing;
      if (std::filesystem::is_directory(input, missing) &&
          dataset::dataset_prefixes_in(input + "/").has_value()) {
        note(fmt::format("{0}: the dataset, not the folder {0}/", input));
      }
      continue;
    }
    MEG_ASSIGN_OR_RETURN(std::vector<std::string> found, dataset::dataset_prefixes_in(input));
    if (arguments.key) {
      MEG_ASSIGN_OR_RETURN(found, dataset::dataset_prefixes_of_key(input, found, *arguments.key));
    }
    resolved.insert(resolved.end(), found.begin(), found.end());
  }
  return resolved;
}

void print_summary(const dataset::MergeSummary& summary, const std::string& output_prefix,
                   double seconds) {
  fmt::print("datasets: {}\ndocuments: {}\nsequences: {}\ntokens: {}\nbytes: {}\nseconds: {:.3f}\n",
             summary.datasets, summary.documents, summary.sequences, summary.items, summary.bytes,
             seconds);
  print_written_dataset(dataset::dataset_prefix(output_prefix));
  std::fflush(stdout);
}

void print_json_summary(const dataset::MergeSummary& summary, const std::string& output_prefix,
                        double seconds) {
  nlohmann::ordered_json object = json_object();
  object["dataset"] = output_prefix;
  object["datasets"] = summary.datasets;
  object["documents"] = summary.documents;
  object["sequences"] = summary.sequences;
  object["tokens"] = summary.items;
  object["bytes"] = summary.bytes;
  object["seconds"] = seconds;
  print_json(object);
}

void print_messages(const dataset::MergeSummary& summary) {
  for (const std::string& text : summary.notes) note(text);
  if (summary.sequences > 0) return;
  warning(
      fmt::format("no {}: all inputs are empty", summary.documents > 0 ? "tokens" : "documents"));
}

Status run(const Arguments& arguments) {
  MEG_ASSIGN_OR_RETURN(const std::vector<std::string> prefixes, resolve_inputs(arguments));
  note_new_folders(arguments.output_prefix);
  const Stopwatch work;
  ProgressBar bar(0);
  dataset::MergeOptions options{.take_short_lengths_as_view = arguments.view,
                                .progress = bar.interruptible_callback()};
  if (arguments.multimodal) options.multimodal = true;
  if (arguments.dtype) options.dtype = dtype_from_name(*arguments.dtype);
  const Result<dataset::MergeSummary> summary =
      dataset::merge_datasets(prefixes, arguments.output_prefix, options);
  bar.clear();
  MEG_RETURN_IF_ERROR(summary.status());
  const double seconds = work.seconds();
  arguments.json ? print_json_summary(*summary, arguments.output_prefix, seconds)
                 : print_summary(*summary, arguments.output_prefix, seconds);
  print_messages(*summary);
  return Status();
}

int main(int argc, const char* const* argv) {
  Arguments arguments;
  if (const std::optional<int> code = parse(argc, argv, arguments)) return *code;
  stop_at_signals();
  const Status status = run(arguments);
  return status.ok() ? 0 : fail(status);
}

}  // namespace
}  // namespace meg::tools

int main(int argc, char** argv) { return meg::tools::run_program(argc, argv, meg::tools::main); }
