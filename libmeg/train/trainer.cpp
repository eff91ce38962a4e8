#include "libmeg/train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <ctime>

#include "libmeg/base/stopwatch.h"
#include "libmeg/libtorch/cuda_backend.h"
#include "libmeg/libtorch/device_figures.h"
#include "libmeg/libtorch/pinned_memory.h"
#include "libmeg/logging/log_lines.h"
#include "libmeg/model/theoretical_memory.h"
#include "libmeg/nn/initialise_weights.h"
#include "libmeg/train/internal/check_token_ids.h"
#include "libmeg/train/internal/not_finite.h"
#include "libmeg/train/internal/run_report.h"
#include "libmeg/train/internal/train_step.h"

namespace meg::train {
namespace {

constexpr std::string_view kLossName = "lm loss";

/// Between the seeds of a pipeline's stages, as in Megatron-LM megatron/training/initialize.py:
/// _set_random_seed.
constexpr uint64_t kSeedStep = 100;

Status check_finite(const std::vector<MicroBatchLoss>& losses) {
  for (const MicroBatchLoss& loss : losses) {
    if (std::isfinite(loss.loss_sum)) continue;
    return not_finite_error("loss", std::isnan(loss.loss_sum));
  }
  return {};
}

logging::Losses named(double loss) { return {{std::string(kLossName), static_cast<float>(loss)}}; }

}  // namespace

/// What ends a run before its last iteration, as all ranks agreed on it.
struct Ending {
  int signal = 0;
  bool time_is_up = false;

  bool is_due() const { return signal != 0 || time_is_up; }
};

struct Trainer::State {
  State(TrainerOptions run_options, TrainerHooks run_hooks, const parallel::ParallelState& others)
      : options(std::move(run_options)),
        hooks(std::move(run_hooks)),
        ranks(others),
        saver(options.checkpoints, options.args, options.data.seed) {}

  TrainerOptions options;
  TrainerHooks hooks;
  parallel::ParallelState ranks;
  std::function<void(const StepReport&)> on_step;
  std::function<void(const EvaluationReport&)> on_evaluation;

  std::optional<nn::GptModel> model;
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

  /// Losses as this revision of Megatron prints them.
  double reported(const std::vector<MicroBatchLoss>& losses) const {
    return reported_loss(losses, options.version.losses_over_tokens);
  }

  int64_t micro_batches_of(int64_t batch_size, samples::Split split) const {
    const BatchOptions& batches = options.batches;
    return batch_size / (batches.micro_batch_size_of(split) * batches.data_parallel_size);
  }

  /// What this rank holds of the model.
  nn::ModelPart part() const {
    return {.sizes = {.tensor_model_parallel_size = ranks.tensor()->size(),
                      .pipeline_model_parallel_size = ranks.pipeline()->size(),
                      .virtual_pipeline_model_parallel_size = 1},
            .tensor_rank = ranks.tensor()->rank(),
            .pipeline_rank = ranks.pipeline()->rank(),
            .tensor_parallel = {.group = ranks.tensor(),
                                .sequence_parallel = options.sequence_parallel}};
  }

  void print_parallel_sizes() const;
  Status build_report();
  Status build();
  Status build_model();
  Status build_data();
  Status load();

  Status run();

  bool divides(std::optional<int64_t> interval) const {
    return interval.has_value() && progress.iteration % *interval == 0;
  }

  Result<bool> train();
  Status train_step();
  Status skip_step();
  Result<StepReport> compute_step(int64_t batch_size);
  Status report_step(const StepReport& step, int64_t batch_size);

  /// What of each split was read before; nullopt: this run does not read it.
  samples::PerSplit<std::optional<int64_t>> consumed_samples() const;

  bool trains() const { return !options.length.skip_train && progress.iteration < train_iters; }

  /// nullopt where the run was asked to end meanwhile.
  Result<std::optional<double>> evaluate(samples::Split split);
  Status evaluate_and_print(samples::Split split, logging::Evaluation kind);
  bool evaluation_is_due() const;

  Status save();

  bool time_is_up() const;

  /// Asks all ranks whether the run is to end.
  Status agree_on_ending();

  /// A line that the first rank prints.
  void print(const std::string& line) const {
    if (ranks.mesh().rank() == 0) hooks.print(line);
  }

  PrintLine print_first() const {
    return [this](const std::string& line) { print(line); };
  }

  /// Why the run ends behind this step, in Megatron's words.
  std::optional<std::string> exit_reason() const;

  /// `status`, with what would need less memory where there was too little for the model.
  Status advised(Status status) const;

  template <class T>
  Result<T> advised(Result<T> result) const {
    return result.has_value() ? std::move(result) : Result<T>(advised(result.error()));
  }
};

void Trainer::State::print_parallel_sizes() const {
  const parallel::Mesh& mesh = ranks.mesh();
  print(logging::world_size_line({.world = mesh.world_size(),
                                  .data = mesh.size(parallel::Axis::kData),
                                  .tensor = mesh.size(parallel::Axis::kTensor),
                                  .pipeline = mesh.size(parallel::Axis::kPipeline)}));
  const at::ScalarType type = options.model.params_dtype;
  print(fmt::format("using torch.{} for parameters ...", type == at::kHalf       ? "float16"
                                                         : type == at::kBFloat16 ? "bfloat16"
                                                                                 : "float32"));
}

Status Trainer::State::build_report() {
  model::TheoreticalMemoryOptions run;
  run.sizes = part().sizes;
  run.data_parallel_size = ranks.data()->size();
  run.use_distributed_optimizer = options.optimizer.use_distributed_optimizer;
  run.sequence_parallel = part().tensor_parallel.splits_sequences();
  run.micro_batch_size = options.batches.micro_batch_size;
  run.recompute_granularity = options.model.recompute_granularity;
  const Result<model::TheoreticalMemory> found = model::theoretical_memory(options.config, run);
  if (found.has_value()) memory = *found;
  const at::Device device = options.model.device;
  const bool is_sixteen_bit = options.model.params_dtype != at::kFloat;
  MEG_ASSIGN_OR_RETURN(
      report,
      RunReport::create(
          {.log_interval = options.log_interval,
           .tensorboard_dir = options.tensorboard_dir,
           .curves = options.tensorboard,
           .log_throughput = options.log_throughput,
           .timers = {.log_level = options.timing_log_level,
                      .log_option = options.timing_log_option,
                      .device = device},
           .version = options.version,
           .peak_tflops =
               is_sixteen_bit ? logging::peak_tflops(libtorch::device_name(device)) : std::nullopt,
           .memory = memory},
          options.config, ranks, hooks.print));
  return {};
}

Status Trainer::State::advised(Status status) const {
  if (status.code() != StatusCode::kResourceExhausted || !memory.has_value()) return status;
  constexpr double kMegabyte = 1024 * 1024;
  return make_error(
      StatusCode::kResourceExhausted,
      "{}; estimated: {:.0f} MB for weights and optimizer, {:.0f} MB for the layers' activations: "
      "lower --micro-batch-size or give --recompute-granularity full --recompute-method uniform",
      status.message(), memory->weight_and_optimizer_bytes / kMegabyte,
      memory->layers_activation_bytes / kMegabyte);
}

Status Trainer::State::save() {
  MEG_RETURN_IF_ERROR(report->timers().measure(
      "save-checkpoint", 0, [this] { return saver.save(progress, parts(), print_first()); }));
  report->times({"save-checkpoint"});
  report->leave_out_time();
  return {};
}

Status Trainer::State::build_model() {
  nn::GptOptions model_options = options.model;
  model_options.seed += kSeedStep * static_cast<uint64_t>(ranks.pipeline()->rank());
  MEG_ASSIGN_OR_RETURN(model, nn::GptModel::create(options.config, model_options, part()));
  if (ranks.data()->rank() == 0) {
    hooks.print(fmt::format(
        " > number of parameters on (tensor, pipeline) model parallel rank ({}, {}): {}",
        ranks.tensor()->rank(), ranks.pipeline()->rank(), model->parameter_count()));
  }
  MEG_RETURN_IF_ERROR(nn::initialise_weights(*model, static_cast<uint64_t>(options.data.seed)));
  const bool fp16 = options.model.params_dtype == at::kHalf;
  const bool bf16 = options.model.params_dtype == at::kBFloat16;
  MEG_ASSIGN_OR_RETURN(
      auto scaler, schedule::get_grad_scaler(fp16, bf16, options.loss_scale, options.loss_scaler));
  MEG_ASSIGN_OR_RETURN(optimizer,
                       Optimizer::create(*model, std::move(scaler), options.optimizer, ranks));
  MEG_ASSIGN_OR_RETURN(scheduler, schedule::get_optimizer_param_scheduler(options.schedule));
  return {};
}

Status Trainer::State::build() {
  if (options.deterministic_mode) libtorch::use_deterministic_algorithms();
  Timers& timers = report->timers();
  const Status built = timers.measure("model-and-optimizer-setup", 0, [this]() -> Status {
    MEG_RETURN_IF_ERROR(advised(build_model()));
    return load();
  });
  MEG_RETURN_IF_ERROR(built);
  print(logging::datetime_line("after model, optimizer, and learning rate scheduler are built",
                               std::time(nullptr)));
  MEG_RETURN_IF_ERROR(
      timers.measure("train/valid/test-data-iterators-setup", 0, [this] { return build_data(); }));
  print(logging::datetime_line("after dataloaders are built", std::time(nullptr)));
  print("done with setup ...");
  report->times({"model-and-optimizer-setup", "train/valid/test-data-iterators-setup"});
  return {};
}

Status Trainer::State::load() {
  MEG_ASSIGN_OR_RETURN(const std::optional<checkpoint::MegatronCheckpoint> checkpoint,
                       open_checkpoint(options.checkpoints, print_first()));
  if (!checkpoint.has_value()) return {};
  const megatron::FieldLookup run = [this](std::string_view name) {
    return options.args.field(name);
  };
  MEG_ASSIGN_OR_RETURN(progress, report->timers().measure("load-checkpoint", 0, [&] {
    return load_checkpoint(*checkpoint, options.checkpoints, run, parts(), print_first());
  }));
  report->times({"load-checkpoint"});
  saver.note_loaded(progress.iteration);
  return {};
}

Status Trainer::State::build_data() {
  print("> building train, validation, and test datasets ...");
  const auto& samples = options.data.samples;
  for (const std::string& line : logging::target_sizes_lines(samples[0], samples[1], samples[2])) {
    print(line);
  }
  MEG_ASSIGN_OR_RETURN(samples::GptDatasets datasets, samples::build_gpt_datasets(options.data));
  for (const std::string& note : datasets.notes) print("> " + note);
  MEG_RETURN_IF_ERROR(check_token_ids(datasets, options.config.padded_vocab_size));
  print("> finished creating GPT datasets ...");
  if (options.model.device.is_cuda()) options.batches.memory = libtorch::pinned_memory();
  MEG_ASSIGN_OR_RETURN(
      data, TrainingData::create(std::move(datasets), options.batches, consumed_samples()));
  return {};
}

samples::PerSplit<std::optional<int64_t>> Trainer::State::consumed_samples() const {
  const samples::RunLength& length = options.length;
  samples::PerSplit<std::optional<int64_t>> consumed;
  if (trains())
    consumed[samples::split_number(samples::Split::kTrain)] = progress.consumed_train_samples;
  if (length.eval_iters > 0) consumed[samples::split_number(samples::Split::kTest)] = 0;
  if (length.full_validation || (length.eval_iters > 0 && length.skip_train)) {
    consumed[samples::split_number(samples::Split::kValid)] = 0;
  } else if (length.eval_iters > 0) {
    consumed[samples::split_number(samples::Split::kValid)] = progress.consumed_valid_samples;
  }
  return consumed;
}

bool Trainer::State::time_is_up() const {
  return options.exit_duration_in_mins.has_value() &&
         run_time.seconds() > *options.exit_duration_in_mins * 60;
}

Status Trainer::State::agree_on_ending() {
  const int signal = hooks.received_signal ? hooks.received_signal() : 0;
  MEG_ASSIGN_OR_RETURN(const int64_t agreed,
                       ranks.max(int64_t{signal} * 2 + (time_is_up() ? 1 : 0)));
  ending = {.signal = static_cast<int>(agreed / 2), .time_is_up = agreed % 2 != 0};
  return {};
}

Result<StepReport> Trainer::State::compute_step(int64_t batch_size) {
  StepReport step;
  step.iteration = progress.iteration + 1;
  step.loss_scale = optimizer->loss_scale();
  step.lr = scheduler->lr();
  step.weight_decay = scheduler->weight_decay();
  Timers& timers = report->timers();
  const auto next = [&] {
    return timers.measure("batch-generator", 2,
                          [this] { return data->next(samples::Split::kTrain); });
  };
  MEG_ASSIGN_OR_RETURN(
      const std::vector<MicroBatchLoss> losses, timers.measure("forward-backward", 1, [&] {
        return forward_backward(*model, *optimizer, next,
                                micro_batches_of(batch_size, samples::Split::kTrain),
                                options.calculate_per_token_loss ? StepLoss::kMeanOfTokens
                                                                 : StepLoss::kMeanOfMicroBatches,
                                ranks);
      }));
  for (const MicroBatchLoss& loss : losses) step.micro_losses.push_back(loss.mean());
  step.lm_loss = reported(losses);
  if (optimizer->checks_for_nan()) MEG_RETURN_IF_ERROR(check_finite(losses));
  MEG_ASSIGN_OR_RETURN(step.outcome, timers.measure("optimizer", 1, [&] {
    return optimizer->step({.lr = step.lr,
                            .weight_decay = step.weight_decay,
                            .decoupled_lr = scheduler->decoupled_lr()});
  }));
  return step;
}

Status Trainer::State::train_step() {
  const int64_t batch_size =
      options.batch_schedule.batch_size_after(progress.consumed_train_samples);
  const Result<StepReport> computed = advised(compute_step(batch_size));
  if (!computed.has_value()) {
    return computed.error().with_prefix(fmt::format("iteration {}", progress.iteration + 1));
  }
  const StepReport& step = *computed;
  if (!step.outcome.skipped) scheduler->step(batch_size);
  progress.iteration += 1;
  progress.consumed_train_samples += batch_size;
  progress.floating_point_operations +=
      logging::num_floating_point_operations(options.config, batch_size);
  return report_step(step, batch_size);
}

Status Trainer::State::skip_step() {
  const int64_t batch_size =
      options.batch_schedule.batch_size_after(progress.consumed_train_samples);
  for (int64_t i = 0; i < micro_batches_of(batch_size, samples::Split::kTrain); ++i) {
    MEG_RETURN_IF_ERROR(data->next(samples::Split::kTrain).status());
  }
  progress.iteration += 1;
  progress.consumed_train_samples += batch_size;
  progress.skipped_train_samples += batch_size;
  return {};
}

Status Trainer::State::report_step(const StepReport& step, int64_t batch_size) {
  logging::IterationFigures figures;
  figures.iteration = progress.iteration;
  figures.train_iters = train_iters;
  figures.consumed_train_samples = progress.consumed_train_samples;
  figures.skipped_train_samples = progress.skipped_train_samples;
  figures.learning_rate = scheduler->lr();
  figures.global_batch_size = batch_size;
  figures.loss_scale = optimizer->loss_scale();
  if (!step.outcome.skipped) figures.grad_norm = step.outcome.grad_norm;
  if (!step.outcome.skipped && step.outcome.num_zeros.has_value()) {
    figures.num_zeros_in_grad = static_cast<double>(*step.outcome.num_zeros);
  }
  if (options.log_params_norm) {
    MEG_ASSIGN_OR_RETURN(figures.params_norm, optimizer->params_norm());
  }
  report->step(figures, named(step.lm_loss), step.outcome.skipped);
  if (on_step) on_step(step);
  return {};
}

Result<std::optional<double>> Trainer::State::evaluate(samples::Split split) {
  const int64_t batch_size =
      options.length.eval_global_batch_size.value_or(options.batch_schedule.global_batch_size());
  const int64_t at_once = micro_batches_of(batch_size, split);
  const bool whole_split = split == samples::Split::kValid && options.length.full_validation;
  if (whole_split) MEG_RETURN_IF_ERROR(data->begin_full_validation(split));
  const int64_t micro_batches =
      whole_split ? data->size(split) : options.length.eval_iters * at_once;
  // All of them, also where the run ends meanwhile: later evaluations are then those of a run that
  // was not stopped.
  if (split == samples::Split::kValid && !whole_split) {
    progress.consumed_valid_samples += options.length.eval_iters * batch_size;
  }
  std::vector<MicroBatchLoss> all;
  for (int64_t done = 0; done < micro_batches; done += at_once) {
    MEG_RETURN_IF_ERROR(agree_on_ending());
    if (ending.is_due()) return std::optional<double>();
    MEG_ASSIGN_OR_RETURN(const std::vector<MicroBatchLoss> losses,
                         forward_only(
                             *model, [&] { return data->next(split); },
                             std::min(at_once, micro_batches - done), ranks));
    all.insert(all.end(), losses.begin(), losses.end());
  }
  return std::optional(reported(all));
}

Status Trainer::State::evaluate_and_print(samples::Split split, logging::Evaluation kind) {
  if (!data->has(split)) return {};
  MEG_ASSIGN_OR_RETURN(
      const std::optional<double> loss,
      advised(report->timers().measure("evaluate", 0, [&] { return evaluate(split); })));
  report->times({"evaluate"});
  if (!loss.has_value()) {
    print(fmt::format("Exiting during evaluation, {}",
                      ending.time_is_up ? "timelimit reached" : "signal received"));
    return {};
  }
  report->evaluation(kind, progress.iteration, progress.consumed_train_samples, named(*loss));
  if (on_evaluation) {
    on_evaluation({.iteration = progress.iteration, .kind = kind, .lm_loss = *loss});
  }
  report->leave_out_time();
  return {};
}

bool Trainer::State::evaluation_is_due() const {
  const samples::RunLength& length = options.length;
  return length.eval_interval != 0 && progress.iteration % length.eval_interval == 0 &&
         progress.iteration >= length.start_eval_at_iter.value_or(0);
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

/// Whether the run came to its end; false where it was stopped before.
Result<bool> Trainer::State::train() {
  print(logging::datetime_line("before the start of training step", std::time(nullptr)));
  report->leave_out_time();
  while (progress.iteration < train_iters) {
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
    if (saver.enabled() && (due || reason.has_value())) MEG_RETURN_IF_ERROR(save());
    if (!reason.has_value()) continue;
    print(logging::datetime_line(*reason, std::time(nullptr)));
    return false;
  }
  print(logging::datetime_line("after training is done", std::time(nullptr)));
  const bool saved = saver.last_iteration() == progress.iteration;
  if (saver.enabled() && progress.iteration != 0 && !saved) MEG_RETURN_IF_ERROR(save());
  return true;
}

Status Trainer::State::run() {
  if (trains() && !data->has(samples::Split::kTrain)) {
    return Status(StatusCode::kInvalidArgument, "there are no samples to train on");
  }
  bool finished = true;
  if (!options.length.skip_train) {
    print("training ...");
    MEG_ASSIGN_OR_RETURN(finished, train());
  } else {
    print("skipping training (--skip-train is on) ...");
  }
  if (finished) {
    MEG_RETURN_IF_ERROR(
        evaluate_and_print(samples::Split::kValid, logging::Evaluation::kFinalValidation));
    MEG_RETURN_IF_ERROR(evaluate_and_print(samples::Split::kTest, logging::Evaluation::kFinalTest));
  }
  report->flush();
  return saver.finish();
}

Trainer::Trainer(std::unique_ptr<State> state) : state_(std::move(state)) {}

Trainer::~Trainer() = default;

namespace {

/// What Megatron's validate_args refuses.
Status check_combinations(const TrainerOptions& options) {
  if (options.schedule.decoupled_lr.has_value() &&
      options.checkpoints.names == model::NameFamily::kLegacy) {
    return make_error(StatusCode::kInvalidArgument,
                      "decoupled_lr: expected it with core's names, found legacy names, whose "
                      "optimizer has no such group");
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
                  "deterministic_mode, found fused, whose gradients do not repeat");
  }
  if (options.model.fp32_residual_connection && options.model.params_dtype == at::kFloat) {
    return make_error(StatusCode::kInvalidArgument,
                      "fp32_residual_connection: expected it with fp16 or bf16, found neither");
  }
  return {};
}

Status check_ranks(const TrainerOptions& options, const parallel::ParallelState& ranks) {
  const auto unsupported = [&](const char* what) {
    return make_error(StatusCode::kUnsupported, "{} on {} ranks: not supported yet", what,
                      ranks.mesh().world_size());
  };
  if (ranks.mesh().world_size() == 1) return {};
  if (options.model.device.is_cuda()) return unsupported("--device cuda (NCCL)");
  if (options.checkpoints.async_save) return unsupported("--async-save");
  if (options.length.full_validation) return unsupported("--full-validation");
  return {};
}

}  // namespace

Result<std::unique_ptr<Trainer>> Trainer::create(TrainerOptions options, TrainerHooks hooks,
                                                 const parallel::ParallelState& ranks) {
  MEG_RETURN_IF_ERROR(check_combinations(options));
  MEG_RETURN_IF_ERROR(check_ranks(options, ranks));
  auto state = std::make_unique<State>(std::move(options), std::move(hooks), ranks);
  MEG_ASSIGN_OR_RETURN(const samples::SampleCounts counts,
                       samples::count_samples(state->options.length, state->options.batch_schedule,
                                              state->options.version));
  state->train_iters = counts.train_iters;
  const bool is_first = ranks.mesh().rank() == 0;
  MEG_RETURN_IF_ERROR(ranks.agree(is_first ? state->saver.check_folder() : Status()));
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

nn::GptModel& Trainer::model() { return *state_->model; }

}  // namespace meg::train
