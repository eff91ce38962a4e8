// Judges by a run's log whether it went on from a checkpoint as it should have. New; Megatron-LM
// has no such tool. `verify resume` starts it.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "libmeg/checkpoint/training/read_training_state.h"
#include "libmeg/resume/judge_resume.h"
#include "tools/common/byte_size.h"
#include "tools/common/flag_groups/resume_flags.h"
#include "tools/common/flags/flags.h"
#include "tools/common/json_output.h"
#include "tools/common/passive_openmp.h"
#include "tools/common/progress_bar.h"
#include "tools/common/ranks.h"
#include "tools/common/report.h"
#include "tools/common/run_of_checkpoint.h"
#include "tools/pretrain_gpt/pretrain_gpt_flags.h"
#include "tools/pretrain_gpt/pretrain_gpt_vocabulary.h"
#include "tools/verify_resume/verify_resume_answer.h"

namespace meg::tools {
namespace {

struct Arguments {
  PretrainFlags run;
  ResumeFlags own;
};

Result<logging::RunLog> read_lines(const Arguments& arguments) {
  if (arguments.own.log.has_value() == arguments.own.tensorboard.has_value()) {
    return make_error(StatusCode::kInvalidArgument,
                      "expected one of --log and --tensorboard, found {}",
                      arguments.own.log.has_value() ? "both" : "neither");
  }
  return arguments.own.log.has_value() ? logging::read_log(*arguments.own.log)
                                       : logging::read_tensorboard_log(*arguments.own.tensorboard);
}

/// Iterations of the checkpoints beside one.
std::vector<int64_t> other_iterations(const checkpoint::CheckpointFolder& folder) {
  std::vector<int64_t> iterations;
  if (folder.root.empty()) return iterations;
  std::error_code error;
  constexpr std::string_view kPrefix = "iter_";
  for (std::filesystem::directory_iterator entry(folder.root, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const std::string digits = name.substr(std::min(name.size(), kPrefix.size()));
    const bool is_number = !digits.empty() && digits.size() < 18 &&
                           digits.find_first_not_of("0123456789") == std::string::npos;
    if (!name.starts_with(kPrefix) || !is_number) continue;
    const int64_t iteration = std::stoll(digits);
    if (iteration != folder.iteration) iterations.push_back(iteration);
  }
  // The nearest are the likeliest.
  std::ranges::sort(iterations, {}, [at = folder.iteration.value_or(0)](int64_t iteration) {
    return std::abs(iteration - at);
  });
  constexpr size_t kMost = 4;
  iterations.resize(std::min(iterations.size(), kMost));
  return iterations;
}

/// A new folder, removed with what is in it at the end.
class ScratchFolder {
 public:
  static Result<ScratchFolder> create() {
    std::error_code error;
    std::string path = std::filesystem::temp_directory_path(error) / "verify-resume-XXXXXX";
    if (error || ::mkdtemp(path.data()) == nullptr) return errno_error(errno, path);
    return ScratchFolder(std::move(path));
  }

  ScratchFolder(ScratchFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}

  ScratchFolder& operator=(ScratchFolder&&) = delete;

  ~ScratchFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }

  const std::string& path() const { return path_; }

 private:
  explicit ScratchFolder(std::string path) : path_(std::move(path)) {}

  std::string path_;
};

/// Bytes that programs may still take without swapping.
std::optional<double> available_memory() {
  std::ifstream lines("/proc/meminfo");
  for (std::string line; std::getline(lines, line);) {
    constexpr std::string_view kName = "MemAvailable:";
    if (!line.starts_with(kName)) continue;
    constexpr double kKilobyte = 1024;
    return std::stod(line.substr(kName.size())) * kKilobyte;
  }
  return std::nullopt;
}

/// Refuses a run that does not fit instead of being killed by the system in the middle of it.
Status check_memory(const train::TrainerOptions& options) {
  if (!options.model.device.is_cpu()) return {};
  const Result<double> needed = resume::memory_of(options);
  const std::optional<double> available = available_memory();
  if (!needed.has_value() || !available.has_value() || *needed <= *available) return {};
  return make_error(
      StatusCode::kResourceExhausted,
      "the run's steps need {} of memory, found {}: `micro_batch_size` 1 and "
      "`recompute_granularity` full `recompute_method` uniform "
      "`recompute_num_layers` 1 need least; `batch_samples` computes the first loss alone, "
      "with one layer's weights in memory",
      byte_size_text(static_cast<int64_t>(*needed)),
      byte_size_text(static_cast<int64_t>(*available)));
}

/// Whether the log's run drew dropout from random states that this one does not have. samples: only
/// some sequences are computed.
bool drops_otherwise(const train::TrainerOptions& options, const checkpoint::TrainingState& state,
                     bool samples) {
  if (options.model.hidden_dropout == 0 && options.model.attention_dropout == 0) return false;
  // libmeg's own runs on a CPU save theirs.
  return samples || !state.rng.has_value() || state.rng->cpu_tracker.empty();
}

Result<resume::ResumeCase> resume_case(Arguments& arguments, const std::string& cache_path,
                                       ResumeAnswer& answer) {
  PretrainFlags& run = arguments.run;
  MEG_ASSIGN_OR_RETURN(const Vocabulary vocabulary,
                       build_vocabulary(run, [](const std::string&) {}));
  MEG_RETURN_IF_ERROR(make_one_rank(run.args, run.data));
  MEG_ASSIGN_OR_RETURN(const parallel::ParallelState ranks, connect_ranks(run.args, run.device));
  resume::ResumeCase resumed;
  resumed.cache_path = cache_path;
  // Without a folder of theirs they would be written beside the dataset.
  if (!run.data.cache_path.has_value()) run.data.cache_path = cache_path;
  MEG_ASSIGN_OR_RETURN(resumed.options, resolve_pretrain_flags(run, vocabulary, ranks));
  if (!resumed.options.checkpoints.load.has_value()) {
    return Status(StatusCode::kInvalidArgument, "--load is required");
  }
  resumed.options.checkpoints.exit_on_missing_checkpoint = true;
  MEG_ASSIGN_OR_RETURN(const auto opened, train::open_checkpoint(resumed.options.checkpoints,
                                                                 [](const std::string&) {}));
  const train::CheckpointOptions& loading = resumed.options.checkpoints;
  MEG_ASSIGN_OR_RETURN(resumed.state, checkpoint::read_training_state(
                                          *opened, {.finetune = loading.finetune,
                                                    .no_load_optim = loading.no_load_optim,
                                                    .no_load_rng = loading.no_load_rng}));
  resumed.other_iterations = other_iterations(opened->folder());
  resumed.tensor_model_parallel_size = opened->tensor_model_parallel_size();
  if (opened->virtual_pipeline_model_parallel_size() == 1) {
    resumed.pipeline_model_parallel_size = opened->pipeline_model_parallel_size();
  }
  answer.checkpoint = opened->folder().folder;
  answer.iteration = resumed.state.iteration;
  answer.consumed_samples = resumed.state.consumed_train_samples;
  return resumed;
}

Result<ResumeAnswer> answer_of(Arguments& arguments) {
  ResumeAnswer answer;
  MEG_ASSIGN_OR_RETURN(const logging::RunLog log, read_lines(arguments));
  answer.log = log.path;
  answer.run = describes_model(arguments.run.args)
                   ? "the flags of the command line"
                   : "the args of the checkpoint, beside the flags of the command line";
  MEG_ASSIGN_OR_RETURN(const ScratchFolder scratch, ScratchFolder::create());
  MEG_ASSIGN_OR_RETURN(const resume::ResumeCase resumed,
                       resume_case(arguments, scratch.path(), answer));
  const bool samples = arguments.own.batch_samples.has_value();
  if (!samples) MEG_RETURN_IF_ERROR(check_memory(resumed.options));
  MEG_ASSIGN_OR_RETURN(logging::LoggedResume found, logging::find_resume(log, answer.iteration));
  answer.lines = std::move(found.lines);
  answer.notes = log.notes;
  if (!found.note.empty()) answer.notes.push_back(std::move(found.note));
  const bool drops = drops_otherwise(resumed.options, resumed.state, samples);
  if (drops) {
    answer.notes.emplace_back(
        "dropout: the random states of the log's run are not those of this one, so losses are only "
        "compared roughly");
  }
  if (resumed.options.config.num_experts.has_value()) {
    answer.notes.emplace_back(
        "experts: tokens that a router likes equally may go elsewhere here, so the comparison is "
        "not exact");
  }
  answer.tolerances = resume::tolerances_of(resumed.options.model.params_dtype, drops);
  answer.tolerances.loss = arguments.own.loss_tolerance.value_or(answer.tolerances.loss);
  answer.tolerances.grad_norm =
      arguments.own.grad_norm_tolerance.value_or(answer.tolerances.grad_norm);
  ProgressBar bar(0);
  MEG_ASSIGN_OR_RETURN(
      answer.verdict,
      resume::judge_resume(resumed, answer.lines,
                           {.steps = arguments.own.steps_or_default(),
                            .tolerances = answer.tolerances,
                            .try_all = arguments.own.try_all,
                            .search_batches = arguments.own.search_batches,
                            .samples = arguments.own.batch_samples,
                            .begins =
                                [&bar](std::string_view name) {
                                  bar.clear();
                                  if (isatty(STDERR_FILENO) == 1) {
                                    fmt::print(stderr, "computing: {}\n", name);
                                  }
                                },
                            .progress = [&bar](const Progress& made) { bar.update(made); }}));
  return answer;
}

int run(Arguments& arguments) {
  const Result<ResumeAnswer> answer = answer_of(arguments);
  // What was given cannot be judged: as argparse's own, and never taken for a difference.
  if (!answer.has_value()) return fail_usage(answer.error());
  if (arguments.own.json) {
    print_json(answer_json(*answer));
  } else {
    for (const std::string& text : answer->notes) note(text);
    for (const std::string& text : answer->verdict.warnings) warning(text);
    print_answer(*answer);
  }
  if (answer->verdict.equal()) return 0;
  return fail(Status(StatusCode::kCorruption, difference_text(*answer)));
}

int main(int argc, const char* const* argv) {
  Arguments arguments;
  Flags flags("verify resume", ResumeFlags::kSummary);
  arguments.own.declare(flags);
  arguments.run.may_be_of_checkpoint = true;
  declare_pretrain_flags(flags, arguments.run);
  if (const std::optional<int> code = flags.parse(argc, argv)) return *code;
  if (arguments.own.dry_run) {
    return fail_usage(Status(StatusCode::kInvalidArgument, "--dry-run: `verify resume` does it"));
  }
  if (const Status status = arguments.own.check(); !status.ok()) return fail_usage(status);
  if (const Status status = finish_pretrain_flags(flags, arguments.run); !status.ok()) {
    return fail_usage(status);
  }
  return run(arguments);
}

}  // namespace
}  // namespace meg::tools

int main(int argc, char** argv) { return meg::tools::run_passively(argc, argv, meg::tools::main); }
