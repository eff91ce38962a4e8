// verify checkpoint: checks that a checkpoint is complete, consistent and finite.

#include "libmeg/checkpoint/verify/verify_checkpoint.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "libmeg/base/thread_pool.h"
#include "tools/common/flag_groups/checkpoint_flags.h"
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

void print_text(const checkpoint::CheckpointReport& report) {
  for (const std::string& note_text : report.notes) note(note_text);
  if (!report.ok()) return print_problems(report.problems);
  const int64_t experts = report.expert_model_parallel_size;
  fmt::print("{}: ok (TP {}, PP {}{}, {}, {} parameters, {} tensors in {} {}, optimizer: {})\n",
             report.folder, report.tensor_model_parallel_size, report.pipeline_model_parallel_size,
             experts > 1 ? fmt::format(", EP {}", experts) : "", report.names,
             report.parameter_count, report.tensors, report.rank_files,
             report.rank_files == 1 ? "file" : "files",
             checkpoint::optimizer_form_text(report.optimizer));
}

ordered_json report_json(const checkpoint::CheckpointReport& report) {
  ordered_json object = json_object();
  object["folder"] = report.folder;
  object["ok"] = report.ok();
  object["format"] = checkpoint::checkpoint_format_text(report.format);
  object["iteration"] =
      report.iteration.has_value() ? ordered_json(*report.iteration) : ordered_json();
  object["checkpoint_version"] = report.checkpoint_version;
  object["tensor_model_parallel_size"] = report.tensor_model_parallel_size;
  object["pipeline_model_parallel_size"] = report.pipeline_model_parallel_size;
  object["virtual_pipeline_model_parallel_size"] = report.virtual_pipeline_model_parallel_size;
  object["expert_model_parallel_size"] = report.expert_model_parallel_size;
  object["names"] = report.names;
  object["optimizer"] = checkpoint::optimizer_form_text(report.optimizer);
  object["rank_files"] = report.rank_files;
  object["parameters"] = report.parameter_count;
  object["tensors"] = report.tensors;
  object["bytes"] = report.bytes;
  object["notes"] = notes_json(report.notes);
  object["problems"] = problems_json(report.problems);
  return object;
}

}  // namespace

int verify_checkpoint_main(int argc, const char* const* argv) {
  std::string path;
  checkpoint::VerifyCheckpointOptions options;
  CheckpointFlags checkpoint_flags;
  int64_t workers = available_processors();
  bool json = false;
  bool no_crc = false;
  Flags flags(
      "verify checkpoint",
      "checks that a checkpoint is complete, that its ranks agree and its tensors are finite; "
      "reports each problem and ends with exit code 1 if there is any.");
  flags.examples({"verify checkpoint checkpoints",
                  "verify checkpoint checkpoints --iteration 5000 --vocab-size 50257 --json"});
  flags.positional(
      "DIR", &path,
      "the folder with the tracker file, an iter_* folder, a Hugging Face folder, or one file");
  flags.group("What to check");
  flags
      .value("--iteration", &options.iteration, "N",
             "check iter_N instead of the one that the tracker names")
      .range(0, int64_t{1} << 62);
  flags.group("Checks");
  flags.toggle("--no-crc", &no_crc, "do not check the files' CRC-32s");
  flags.toggle("--allow-nan", &options.allow_nan, "accept NaN and Inf");
  flags
      .value("--vocab-size", &options.vocab_size, "N",
             "require an embedding with rows for N tokens")
      .range(1, int64_t{1} << 32);
  checkpoint_flags.declare(flags);
  flags.group("Running");
  flags.toggle("--json", &json, "print one JSON object");
  flags.value("--workers", &workers, "N", "threads that read tensors").range(1, kMaxWorkers);
  if (const std::optional<int> code = flags.parse(argc, argv)) return *code;

  Result<checkpoint::OpenCheckpointOptions> open = checkpoint_flags.options();
  if (!open.has_value()) return fail(open.error());
  options.open = *std::move(open);
  ProgressBar bar(0);
  options.check_crcs = !no_crc;
  options.workers = static_cast<int>(workers);
  options.progress = bar.callback();
  const Result<checkpoint::CheckpointReport> report = checkpoint::verify_checkpoint(path, options);
  bar.clear();
  if (!report.has_value()) return fail(no_checkpoint(path, report.error()));
  if (json) {
    print_json(report_json(*report));
  } else {
    print_text(*report);
  }
  if (report->ok()) return 0;
  return fail(make_error(StatusCode::kCorruption, "{}: {} {}", report->folder,
                         report->problems.size(),
                         report->problems.size() == 1 ? "problem" : "problems"));
}

}  // namespace meg::tools
