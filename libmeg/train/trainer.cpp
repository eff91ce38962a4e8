#include "libmeg/train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string_view>

#include "libmeg/model/pipeline_layout.h"
#include "libmeg/train/internal/trainer_state.h"

// The order of a run: megatron/training/training.py: train and pretrain. After each step come, in
// Megatron's order, the evaluation, then the question whether to end, then the checkpoint that
// either calls for.
//
// Whatever depends on one rank's clock, signals or files is agreed on by all ranks before it
// decides anything: ranks that left the loop at different iterations would wait for each other in
// collectives that never match.

namespace meg::train {

Status Trainer::State::save() {
  MEG_RETURN_IF_ERROR(report->timers().measure(
      "save-checkpoint", 0, [this] { return saver.save(progress, parts(), print_first()); }));
  report->times({"save-checkpoint"});
  // The time of a save is not part of the next line's time per iteration.
  report->leave_out_time();
  return {};
}

bool Trainer::State::time_is_up() const {
  // 0 is none, as in Megatron.
  const double minutes = options.exit_duration_in_mins.value_or(0);
  return minutes > 0 && run_time.seconds() > minutes * 60;
}

Status Trainer::State::agree_on_ending() {
  const int signal = hooks.received_signal ? hooks.received_signal() : 0;
  // One collective for both questions: the signal in the upper bits, the clock in the lowest. Where
  // ranks differ, the largest signal wins; that the time is up at one rank counts only beside no
  // larger signal, and a signal ends the run anyhow.
  MEG_ASSIGN_OR_RETURN(const int64_t agreed,
                       ranks.max(int64_t{signal} * 2 + (time_is_up() ? 1 : 0)));
  ending = {.signal = static_cast<int>(agreed / 2), .time_is_up = agreed % 2 != 0};
  return {};
}

std::optional<std::string> Trainer::State::exit_reason() const {
  if (ending.signal != 0) {
    return fmt::format("exiting program after receiving SIG{}.", ::sigabbrev_np(ending.signal));
  }
  if (ending.time_is_up) {
    return fmt::format("exiting program after {} minutes", run_time.seconds() / 60);
  }
  if (divides(options.exit_interval)) {
    return fmt::format("exiting program at iteration {}", progress.iteration);
  }
  return std::nullopt;
}

Result<bool> Trainer::State::train() {
  print(logging::datetime_line("before the start of training step", std::time(nullptr)));
  report->leave_out_time();
  while (progress.iteration < train_iters) {
    // Here, between two steps, all ranks are at the same point: a save in the background moves on
    // by a collective.
    MEG_RETURN_IF_ERROR(saver.poll(ranks, print_first()));
    // Before a step `iteration` is the number of those done, which is what Megatron compares with
    // --iterations-to-skip.
    if (std::ranges::count(options.iterations_to_skip, progress.iteration) != 0) {
      MEG_RETURN_IF_ERROR(skip_step());
      continue;
    }
    MEG_RETURN_IF_ERROR(train_step());
    if (evaluation_is_due()) {
      MEG_RETURN_IF_ERROR(
          evaluate_and_print(samples::Split::kValid, logging::Evaluation::kDuringTraining));
    }
    MEG_RETURN_IF_ERROR(agree_on_ending());
    const std::optional<std::string> reason = exit_reason();
    const bool due = divides(options.checkpoints.save_interval);
    // A run that ends early saves, whatever the interval, so that nothing that was computed is
    // lost.
    if (saver.enabled() && (due || reason.has_value())) MEG_RETURN_IF_ERROR(save());
    if (!reason.has_value()) continue;
    print(logging::datetime_line(*reason, std::time(nullptr)));
    MEG_RETURN_IF_ERROR(saver.finish(ranks, print_first()));
    // Not finished: the final evaluations of run() belong to the run that continues from this
    // checkpoint.
    return false;
  }
  MEG_RETURN_IF_ERROR(saver.finish(ranks, print_first()));
  print(logging::datetime_line("after training is done", std::time(nullptr)));
  // An interval that divides the last iteration has saved it already, and a loaded checkpoint may
  // already be at the end.
  const bool saved = saver.last_iteration() == progress.iteration;
  if (saver.enabled() && progress.iteration != 0 && !saved) MEG_RETURN_IF_ERROR(save());
  return true;
}

Status Trainer::State::run() {
  // Both are checked before the first step, not after the hours that a run takes.
  if (trains() && !data->has(samples::Split::kTrain)) {
    return Status(StatusCode::kInvalidArgument, "there are no samples to train on");
  }
  if (trace.has_value() && !trains()) {
    return Status(StatusCode::kInvalidArgument,
                  "`trace_schedule`: expected a run with at least one step, found none");
  }
  bool finished = true;
  if (!options.length.skip_train) {
    print("training ...");
    MEG_ASSIGN_OR_RETURN(finished, train());
    if (trace.has_value()) MEG_RETURN_IF_ERROR(trace->write(*options.trace_schedule, ranks));
  } else {
    print("skipping training (--skip-train is on) ...");
  }
  if (finished) {
    MEG_RETURN_IF_ERROR(
        evaluate_and_print(samples::Split::kValid, logging::Evaluation::kFinalValidation));
    MEG_RETURN_IF_ERROR(evaluate_and_print(samples::Split::kTest, logging::Evaluation::kFinalTest));
  }
  // model() shows a caller whole parameters from here on.
  MEG_RETURN_IF_ERROR(optimizer->finish_gathers());
  report->flush();
  return saver.finish(ranks, print_first());
}

Trainer::Trainer(std::unique_ptr<State> state) : state_(std::move(state)) {}

Trainer::~Trainer() = default;

namespace {

/// What Megatron's validate_args refuses.
Status check_combinations(const TrainerOptions& options) {
  if (options.schedule.decoupled_lr.has_value() &&
      options.checkpoints.names == model::NameFamily::kLegacy) {
    return make_error(StatusCode::kInvalidArgument,
                      "decoupled_lr: requires core's names, found legacy names, whose optimizer "
                      "has no such group");
  }
  if (options.checkpoints.ckpt_format == checkpoint::CheckpointFormat::kTorchDist &&
      options.checkpoints.names == model::NameFamily::kLegacy) {
    return make_error(StatusCode::kInvalidArgument,
                      "ckpt_format: expected torch with legacy names, found torch_dist, which has "
                      "core's names");
  }
  if (options.deterministic_mode &&
      options.model.attention_backend == nn::AttentionBackend::kFused) {
    return Status(StatusCode::kInvalidArgument,
                  "attention_backend: expected auto, flash, unfused or local with "
                  "deterministic_mode, found fused, whose gradients are not reproducible");
  }
  if (options.model.fp32_residual_connection && options.model.params_dtype == at::kFloat) {
    return make_error(StatusCode::kInvalidArgument,
                      "fp32_residual_connection: requires fp16 or bf16");
  }
  if (options.model.rotary_interleaved && options.checkpoints.names == model::NameFamily::kLegacy) {
    return make_error(StatusCode::kInvalidArgument,
                      "rotary_interleaved: requires core's names, found legacy names");
  }
  // With any kind of positions, as in Megatron: the checkpoint says to others how long sequences
  // may be.
  if (options.config.max_position_embeddings < options.data.sequence_length) {
    return make_error(StatusCode::kInvalidArgument,
                      "max_position_embeddings: expected at least the sequence length {}, found {}",
                      options.data.sequence_length, options.config.max_position_embeddings);
  }
  return options.config.check_positions("seq_length", options.data.sequence_length);
}

/// A GPU with one queue for all streams does nothing that was queued after a send until the other
/// stage receives it, and interleaved schedules whose groups have more micro-batches than there are
/// stages receive later than that: the stages would wait for each other in a circle.
Status check_one_queue(const TrainerOptions& options, int64_t stages, int64_t group) {
  const char* const queues = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  const bool is_one = queues != nullptr && std::string_view(queues) == "1";
  if (!is_one || !options.model.device.is_cuda() || group <= stages) return {};
  return make_error(StatusCode::kUnsupported,
                    "microbatch_group_size_per_vp_stage: expected at most the {} pipeline stages "
                    "with CUDA_DEVICE_MAX_CONNECTIONS=1, found {}: unset that variable",
                    stages, group);
}

Status check_pipeline(const TrainerOptions& options, const parallel::ParallelState& ranks) {
  const int64_t stages = ranks.pipeline()->size();
  const int64_t virtual_stages = options.virtual_pipeline_model_parallel_size;
  MEG_RETURN_IF_ERROR(
      model::PipelineLayout::create(options.config.num_layers,
                                    {.pipeline_model_parallel_size = stages,
                                     .virtual_pipeline_model_parallel_size = virtual_stages,
                                     .split = options.pipeline_split})
          .status());
  if (virtual_stages == 1) return {};
  const int64_t group = options.microbatch_group_size_per_vp_stage.value_or(stages);
  MEG_RETURN_IF_ERROR(check_one_queue(options, stages, group));
  return options.batch_schedule.check_micro_batches_fill(stages, group);
}

Status check_ranks(const TrainerOptions& options, const parallel::ParallelState& ranks) {
  if (ranks.mesh().world_size() == 1 || options.model.device == ranks.device()) return {};
  return make_error(StatusCode::kInvalidArgument, "device: expected the rank's device {}, found {}",
                    ranks.device().str(), options.model.device.str());
}

}  // namespace

Result<std::unique_ptr<Trainer>> Trainer::create(TrainerOptions options, TrainerHooks hooks,
                                                 const parallel::ParallelState& ranks) {
  MEG_RETURN_IF_ERROR(check_combinations(options));
  MEG_RETURN_IF_ERROR(check_ranks(options, ranks));
  MEG_RETURN_IF_ERROR(check_pipeline(options, ranks));
  auto state = std::make_unique<State>(std::move(options), std::move(hooks), ranks);
  MEG_ASSIGN_OR_RETURN(const samples::SampleCounts counts,
                       samples::count_samples(state->options.length, state->options.batch_schedule,
                                              state->options.version));
  state->train_iters = counts.train_iters;
  const bool is_first = ranks.mesh().rank() == 0;
  // A --save folder that cannot be written is found now and not at the first interval.
  MEG_RETURN_IF_ERROR(ranks.agree(is_first ? state->saver.check_folder() : Status()));
  MEG_RETURN_IF_ERROR(state->begin_trace());
  state->print_parallel_sizes();
  MEG_RETURN_IF_ERROR(state->build_report());
  MEG_RETURN_IF_ERROR(state->build());
  return std::unique_ptr<Trainer>(new Trainer(std::move(state)));
}

void Trainer::watch(std::function<void(const StepReport&)> step,
                    std::function<void(const EvaluationReport&)> evaluation) {
  state_->on_step = std::move(step);
  state_->on_evaluation = std::move(evaluation);
}

Status Trainer::run() { return state_->run(); }

int64_t Trainer::iteration() const { return state_->progress.iteration; }

const ModelChunks& Trainer::model() const { return *state_->model; }

}  // namespace meg::train
