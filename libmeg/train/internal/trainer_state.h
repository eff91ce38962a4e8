#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libmeg/base/stopwatch.h"
#include "libmeg/logging/log_lines.h"
#include "libmeg/model/theoretical_memory.h"
#include "libmeg/nn/part_of_rank.h"
#include "libmeg/train/internal/pipeline/schedule_trace.h"
#include "libmeg/train/internal/run_report.h"
#include "libmeg/train/internal/train_step.h"
#include "libmeg/train/trainer.h"

namespace meg::train {

/// The reason why a run ends before its last iteration, on which all ranks have agreed.
struct Ending {
  int signal = 0;
  bool time_is_up = false;

  bool is_due() const { return signal != 0 || time_is_up; }
};

/// The state of a run. trainer_setup.cpp sets it up, trainer_steps.cpp runs steps,
/// trainer_evaluation.cpp evaluates, and trainer.cpp has their order.
struct Trainer::State {
  State(TrainerOptions run_options, TrainerHooks run_hooks, const parallel::ParallelState& others)
      : options(std::move(run_options)),
        hooks(std::move(run_hooks)),
        ranks(others),
        saver(options.checkpoints, options.args, options.data.seed) {}

  TrainerOptions options;
  TrainerHooks hooks;
  std::optional<ScheduleTrace> trace;
  parallel::ParallelState ranks;  ///< Observed by the trace if there is one.
  std::function<void(const StepReport&)> on_step;
  std::function<void(const EvaluationReport&)> on_evaluation;

  std::vector<nn::GptModel> chunks;  ///< One per virtual pipeline stage.
  std::optional<ModelChunks> model;  ///< All chunks.
  std::unique_ptr<Optimizer> optimizer;
  std::optional<schedule::OptimizerParamScheduler> scheduler;
  std::optional<TrainingData> data;
  CheckpointSaver saver;
  std::optional<model::TheoreticalMemory> memory;
  std::unique_ptr<RunReport> report;

  TrainingProgress progress;
  int64_t train_iters = 0;
  Stopwatch run_time;
  Ending ending;

  RunParts parts() {
    return {.model = *model, .optimizer = *optimizer, .scheduler = *scheduler, .ranks = ranks};
  }

  /// The loss as this revision of Megatron prints it.
  double reported(const std::vector<MicroBatchLoss>& losses) const {
    return reported_loss(losses, options.version.losses_over_tokens);
  }

  int64_t micro_batches_of(int64_t batch_size, samples::Split split) const {
    const BatchOptions& batches = options.batches;
    return batch_size / (batches.micro_batch_size_of(split) * batches.data_parallel_size);
  }

  /// The part of the model that this rank holds: its first chunk.
  nn::ModelPart part() const {
    nn::ModelPart part = nn::part_of_rank(ranks);
    part.sizes.virtual_pipeline_model_parallel_size = options.virtual_pipeline_model_parallel_size;
    part.sizes.split = options.pipeline_split;
    part.tensor_parallel.sequence_parallel = options.sequence_parallel;
    return part;
  }

  Status begin_trace();
  void print_parallel_sizes() const;
  Status build_report();
  Status build();
  Status check_experts() const;
  Status check_full_validation(const samples::GptDatasets& datasets) const;
  Status build_model();
  Status check_same_data() const;
  Status build_data();
  Status load();

  /// If a checkpoint lacks the numbers of consumed samples, computes them from its iteration.
  Status count_unsaid_samples();

  /// Says where --train-samples does not count as the checkpoint did: with another batch size.
  void tell_other_batches() const;

  /// Samples of a step of an evaluation.
  int64_t evaluation_batch_size() const {
    return options.length.eval_global_batch_size.value_or(
        options.batch_schedule.global_batch_size());
  }

  Status run();

  bool divides(std::optional<int64_t> interval) const {
    return interval.has_value() && progress.iteration % *interval == 0;
  }

  Result<bool> train();
  Status train_step();
  Status skip_step();
  Result<StepReport> compute_step(int64_t batch_size);

  /// The step's means over all layers, micro-batches and data-parallel ranks. All ranks call it.
  Result<logging::Losses> take_auxiliary_losses(int64_t micro_batches);

  /// not_finite_error() for the first of a step's losses, or of an evaluation's, that is not
  /// finite, where the run checks. losses: as many of each data-parallel rank, rank after rank; all
  /// ranks have them all.
  Status check_finite(const std::vector<MicroBatchLoss>& losses) const;

  /// Completes the report of a step that was made.
  Status report_step(StepReport& step, int64_t batch_size);

  /// Samples of each split consumed so far; nullopt: this run does not read the split.
  samples::PerSplit<std::optional<int64_t>> consumed_samples() const;

  bool trains() const { return !options.length.skip_train && progress.iteration < train_iters; }

  /// nullopt if the run was asked to end meanwhile.
  Result<std::optional<double>> evaluate(samples::Split split, logging::Evaluation kind);
  Status evaluate_and_print(samples::Split split, logging::Evaluation kind);
  bool evaluation_is_due() const;

  Status save();

  bool time_is_up() const;

  /// Asks all ranks whether the run is to end.
  Status agree_on_ending();

  /// Prints a line on the first rank.
  void print(const std::string& line) const {
    if (ranks.mesh().rank() == 0) hooks.print(line);
  }

  PrintLine print_first() const {
    return [this](const std::string& line) { print(line); };
  }

  /// Why the run ends after this step, in Megatron's words.
  std::optional<std::string> exit_reason() const;

  /// Adds advice on how to save memory to `status` if the model did not fit.
  Status advised(Status status) const;

  template <class T>
  Result<T> advised(Result<T> result) const {
    return result.has_value() ? std::move(result) : Result<T>(advised(result.error()));
  }
};

/// The loss under the name that it has in Megatron's lines and curves.
inline logging::Losses named_loss(double loss) { return {{"lm loss", static_cast<float>(loss)}}; }

}  // namespace meg::train
