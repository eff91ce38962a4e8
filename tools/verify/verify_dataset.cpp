// verify dataset: checks every entry of a dataset.

#include "libmeg/dataset/verify_dataset.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "libmeg/base/thread_pool.h"
#include "libmeg/text/printable.h"
#include "tools/common/flags/flags.h"
#include "tools/common/found_instead.h"
#include "tools/common/json_output.h"
#include "tools/common/progress_bar.h"
#include "tools/common/report.h"
#include "tools/verify/problems.h"
#include "tools/verify/verify_programs.h"

namespace meg::tools {
namespace {

using nlohmann::ordered_json;

void print_text(const dataset::VerifyReport& report) {
  if (!report.ok()) return print_problems(report.problems);
  // The usual format goes without saying.
  fmt::print("{}: ok ({} sequences, {} documents, {} tokens, {}{}{})\n", report.prefix,
             report.sequence_count, report.document_count, report.item_count,
             dtype_name(*report.dtype),
             report.format == dataset::IndexFormat::kTntidx ? ", TNTIDX" : "",
             report.view ? ", a view of " + text::printable_name(report.view->bin, 1000) : "");
}

/// null where there is nothing to say.
template <class T>
ordered_json optional_json(const std::optional<T>& value) {
  return value.has_value() ? ordered_json(*value) : ordered_json();
}

ordered_json report_json(const dataset::VerifyReport& report,
                         const dataset::VerifyOptions& options) {
  ordered_json object = json_object();
  object["prefix"] = report.prefix;
  object["ok"] = report.ok();
  object["format"] = dataset::index_format_name(report.format);
  object["version"] = report.version;
  object["dtype"] = report.dtype.has_value() ? ordered_json(dtype_name(*report.dtype)) : nullptr;
  object["multimodal"] = report.multimodal;
  object["view_of"] = report.view ? ordered_json(report.view->bin) : nullptr;
  object["sequences"] = report.sequence_count;
  object["documents"] = report.document_count;
  object["tokens"] = report.item_count;
  object["idx_bytes"] = report.idx_bytes;
  object["bin_bytes"] = report.bin_bytes;
  object["vocab_size"] = optional_json(options.vocab_size);
  object["eod"] = optional_json(options.eod);
  object["problems"] = problems_json(report.problems);
  return object;
}

}  // namespace

int verify_dataset_main(int argc, const char* const* argv) {
  std::string prefix;
  dataset::VerifyOptions options;
  int64_t workers = available_processors();
  bool json = false;
  Flags flags("verify dataset",
              "checks every entry of a dataset (PREFIX.bin and PREFIX.idx); reports each problem "
              "and ends with exit code 1 if there is any.");
  flags.examples({"verify dataset corpus_text_document",
                  "verify dataset corpus_text_document --vocab-size 50257 --eod 50256"});
  flags.positional("PREFIX", &prefix, "prefix of the dataset, may end in .bin or .idx");
  flags.group("What to check");
  flags.toggle("--view", &options.view,
               "allow sequences anywhere in .bin, in any order and more than once");
  flags.group("Token checks");
  flags.value("--vocab-size", &options.vocab_size, "N", "require every id to be below N")
      .range(1, int64_t{1} << 32);
  flags
      .value("--eod", &options.eod, "ID",
             "require every document with sequences to end with this id")
      .range(0, int64_t{1} << 32);
  flags.group("Running");
  flags.toggle("--json", &json, "print one JSON object");
  flags.value("--workers", &workers, "N", "threads that read .bin").range(1, kMaxWorkers);
  if (const std::optional<int> code = flags.parse(argc, argv)) return *code;

  ProgressBar bar(0);
  options.workers = static_cast<int>(workers);
  options.progress = bar.callback();
  const Result<dataset::VerifyReport> report = dataset::verify_dataset(prefix, options);
  bar.clear();
  if (!report.has_value()) return fail(no_dataset(prefix, report.error()));
  if (json) {
    print_json(report_json(*report, options));
  } else {
    print_text(*report);
  }
  if (report->ok()) return 0;
  // Problems are the result and stand on stdout; the last line of stderr counts them.
  return fail(make_error(StatusCode::kCorruption, "{}: {} {} failed", report->prefix,
                         report->problems.size(),
                         report->problems.size() == 1 ? "check" : "checks"));
}

}  // namespace meg::tools
