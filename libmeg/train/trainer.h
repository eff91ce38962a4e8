#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/checkpoint/dialects/mp_rank/training_args.h"
#include "libmeg/logging/tensorboard_log.h"
#include "libmeg/megatron/megatron_version.h"
#include "libmeg/model/gpt_config.h"
#include "libmeg/model/parallel_sizes.h"
#include "libmeg/nn/gpt_options.h"
#include "libmeg/parallel/parallel_state.h"
#include "libmeg/samples/batches/batch_schedule.h"
#include "libmeg/samples/sample_counts.h"
#include "libmeg/schedule/grad_scaler.h"
#include "libmeg/schedule/scheduler_flags.h"
#include "libmeg/train/checkpointing.h"
#include "libmeg/train/optimizer.h"
#include "libmeg/train/training_data.h"

namespace meg::train {

/// All options of a run. Names are those of Megatron's flags.
struct TrainerOptions {
  model::GptConfig config;
  nn::GptOptions model;
  Optimizer::Options optimizer;
  schedule::SchedulerFlags schedule;
  std::optional<double> loss_scale;
  schedule::DynamicGradScaler::Options loss_scaler;

  samples::GptDataConfig data;
  BatchOptions batches;
  samples::BatchSchedule batch_schedule;
  samples::RunLength length;

  CheckpointOptions checkpoints;
  checkpoint::TrainingArgs args;  ///< Saved in checkpoints.

  /// Virtual pipeline stages of each pipeline stage, which interleave their micro-batches; 1: none.
  int64_t virtual_pipeline_model_parallel_size = 1;
  model::PipelineSplit pipeline_split = {};
  /// Micro-batches that a virtual stage processes in a row; nullopt: the number of stages.
  std::optional<int64_t> microbatch_group_size_per_vp_stage;
  /// Tensor-parallel ranks split sequences between their matrices. One rank has nothing to split.
  bool sequence_parallel = false;
  /// A step's loss is the mean over its tokens instead of over its micro-batches' means.
  bool calculate_per_token_loss = false;
  /// Iterations (the first is 0) whose batch is only read: nothing is computed, no step is made,
  /// and nothing is logged, evaluated or saved after them.
  std::vector<int64_t> iterations_to_skip = {};

  bool deterministic_mode = false;  ///< A GPU's runs repeat to the bit.
  int64_t log_interval = 100;
  std::optional<std::string> tensorboard_dir;
  logging::TensorboardCurves tensorboard;
  bool log_throughput = false;
  bool log_params_norm = false;
  int64_t timing_log_level = 0;
  logging::TimingLogOption timing_log_option = logging::TimingLogOption::kMinMax;
  /// A file for a trace of the run's last step, in Chrome's format.
  std::optional<std::string> trace_schedule;
  std::optional<int64_t> exit_interval;  ///< Stops at iterations that it divides.
  std::optional<double> exit_duration_in_mins;
  megatron::MegatronVersion version = megatron::newest_megatron_version();

  /// Reads the args for schedule, optimizer, checkpoints, logs and the end of the run; the caller
  /// provides the rest (model, data, batches). Mirrors Megatron-LM megatron/training/arguments.py.
  void take_fields(megatron::FieldReader& reader);
};

/// Callbacks of the trainer.
struct TrainerHooks {
  /// Megatron's lines: of a run's beginning and its checkpoints on the first rank, of its steps and
  /// evaluations on the last.
  std::function<void(const std::string& line)> print;
  /// The number of a signal at which to end after this step, saved; 0: none.
  std::function<int()> received_signal;
  /// Called, if set, with the run as a checkpoint left it, before its data is built: may change
  /// both, for a run that does not go on as it should.
  std::function<Status(RunParts parts, TrainingProgress& progress)> loaded = {};
};

/// The result of one step, for tests and monitoring.
struct StepReport {
  int64_t iteration = 0;
  double lr = 0;            ///< That the update used.
  double weight_decay = 0;  ///< That the update used.
  double lm_loss = 0;
  /// Means over layers and micro-batches: "load_balancing_loss", "z_loss" ...
  logging::Losses auxiliary_losses;
  std::vector<double> micro_losses;
  Optimizer::Outcome outcome;
  double loss_scale = 1;              ///< That the step used.
  logging::IterationFigures figures;  ///< Those of the step in a log.
};

struct EvaluationReport {
  int64_t iteration = 0;
  logging::Evaluation kind = logging::Evaluation::kDuringTraining;
  double lm_loss = 0;
};

/// Trains a GPT model, each rank on one device.
/// Mirrors Megatron-LM megatron/training/training.py: pretrain.
class Trainer {
 public:
  /// Builds model, optimizer, schedule and data; loads a checkpoint where one is named.
  /// ranks: those that train together; each calls the same functions with the same options, but
  /// for the data-parallel rank of its batches.
  static Result<std::unique_ptr<Trainer>> create(TrainerOptions options, TrainerHooks hooks,
                                                 const parallel::ParallelState& ranks = {});
  ~Trainer();

  /// Called after every step and evaluation, if set. With overlap_param_gather the model's tensors
  /// may still be on their way from other ranks then.
  void watch(std::function<void(const StepReport&)> step,
             std::function<void(const EvaluationReport&)> evaluation);

  /// Trains to the end, or until received_signal, exit_interval or exit_duration; saves; evaluates.
  Status run();

  int64_t iteration() const;
  const ModelChunks& model() const;

 private:
  struct State;
  explicit Trainer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace meg::train
