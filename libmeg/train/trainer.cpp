#include "libmeg/train/trainer.h"

#include <fmt/format.h>

#include <cmath>
#include <ctime>

#include "libmeg/core/stopwatch.h"
#include "libmeg/model/theoretical_memory.h"
#include "libmeg/nn/initialise_weights.h"
#include "libmeg/train/check_token_ids.h"
#include "libmeg/train/logging/log_lines.h"
#include "libmeg/train/logging/throughput.h"
#include "libmeg/train/logging/training_log.h"
#include "libmeg/train/pinned_memory.h"
#include "libmeg/train/train_step.h"

namespace meg::train {
namespace {

constexpr std::string_view kLossName = "lm loss";

Losses named(double loss) { return {{std::string(kLossName), static_cast<float>(loss)}}; }

}  // namespace

struct Trainer::State {
  State(TrainerOptions run_options, TrainerHooks run_hooks)
      : options(std::move(run_options)),
        hooks(std::move(run_hooks)),
        saver(options.checkpoints, options.args, options.data.seed),
        log(options.version) {}

  TrainerOptions options;
  TrainerHooks hooks;
  std::function<void(const StepReport&)> on_step;
  std::function<void(const EvaluationReport&)> on_evaluation;

  std::optional<nn::GptModel> model;
  std::unique_ptr<Optimizer> optimizer;
  std::optional<OptimizerParamScheduler> scheduler;
  std::optional<TrainingData> data;
  CheckpointSaver saver;
  TrainingLog log;
  std::optional<TensorboardWriter> tensorboard;

  Progress progress;
  int64_t train_iters = 0;
  Stopwatch run_time;
  Stopwatch since_last_line;

  RunParts parts() { return {.model = *model, .optimizer = *optimizer, .scheduler = *scheduler}; }

  /// Losses as this revision of Megatron prints them.
  double reported(const std::vector<MicroBatchLoss>& losses) const {
    return reported_loss(losses, options.version.losses_over_tokens);
  }

  int64_t micro_batches_of(int64_t batch_size) const {
    return batch_size / (options.batches.micro_batch_size * options.batches.data_parallel_size);
  }

  void print_theoretical_memory();
  Status build_model();
  Status build_data();
  Status load();

  Result<bool> train();
  Status train_step();
  Status report_step(const StepReport& report, int64_t batch_size);
  Result<double> evaluate(Split split);
  Status evaluate_and_print(Split split, Evaluation kind);

  Status save() { return saver.save(progress, parts(), hooks.print); }

  bool time_is_up() const;
};

/// What the run needs by Megatron's estimate; nothing where it has none for the model.
void Trainer::State::print_theoretical_memory() {
  TheoreticalMemoryOptions memory;
  memory.micro_batch_size = options.batches.micro_batch_size;
  const Result<TheoreticalMemory> found = theoretical_memory(options.config, memory);
  if (!found.has_value()) return;
  for (const std::string& line : theoretical_memory_lines(*found, /*verbose=*/false)) {
    hooks.print(line);
  }
}

Status Trainer::State::build_model() {
  MEG_ASSIGN_OR_RETURN(model, nn::GptModel::create(options.config, options.model));
  hooks.print(
      fmt::format(" > number of parameters on (tensor, pipeline) model parallel rank (0, 0): {}",
                  model->parameter_count()));
  MEG_RETURN_IF_ERROR(nn::initialise_weights(*model, static_cast<uint64_t>(options.data.seed)));
  const bool fp16 = options.model.params_dtype == at::kHalf;
  const bool bf16 = options.model.params_dtype == at::kBFloat16;
  MEG_ASSIGN_OR_RETURN(auto scaler,
                       get_grad_scaler(fp16, bf16, options.loss_scale, options.loss_scaler));
  MEG_ASSIGN_OR_RETURN(optimizer, Optimizer::create(*model, std::move(scaler), options.optimizer));
  MEG_ASSIGN_OR_RETURN(scheduler, get_optimizer_param_scheduler(options.schedule));
  return {};
}

Status Trainer::State::load() {
  MEG_ASSIGN_OR_RETURN(const std::optional<MegatronCheckpoint> checkpoint,
                       open_checkpoint(options.checkpoints, hooks.print));
  if (!checkpoint.has_value()) return {};
  const FieldLookup run = [this](std::string_view name) { return options.args.field(name); };
  MEG_ASSIGN_OR_RETURN(
      progress, load_checkpoint(*checkpoint, options.checkpoints, run, parts(), hooks.print));
  return {};
}

Status Trainer::State::build_data() {
  hooks.print("> building train, validation, and test datasets ...");
  const auto& samples = options.data.samples;
  for (const std::string& line : target_sizes_lines(samples[0], samples[1], samples[2])) {
    hooks.print(line);
  }
  MEG_ASSIGN_OR_RETURN(GptDatasets datasets, build_gpt_datasets(options.data));
  for (const std::string& note : datasets.notes) hooks.print("> " + note);
  MEG_RETURN_IF_ERROR(check_token_ids(datasets, options.config.padded_vocab_size));
  hooks.print("> finished creating GPT datasets ...");
  if (options.model.device.is_cuda()) options.batches.memory = pinned_memory();
  MEG_ASSIGN_OR_RETURN(data, TrainingData::create(std::move(datasets), options.batches,
                                                  {progress.consumed_train_samples,
                                                   progress.consumed_valid_samples, 0}));
  return {};
}

bool Trainer::State::time_is_up() const {
  return options.exit_duration_in_mins.has_value() &&
         run_time.seconds() > *options.exit_duration_in_mins * 60;
}

Status Trainer::State::train_step() {
  const int64_t batch_size =
      options.batch_schedule.batch_size_after(progress.consumed_train_samples);
  StepReport report;
  report.iteration = progress.iteration + 1;
  report.loss_scale = optimizer->loss_scale();
  report.lr = scheduler->lr();
  report.weight_decay = scheduler->weight_decay();
  MEG_ASSIGN_OR_RETURN(const std::vector<MicroBatchLoss> losses,
                       forward_backward(
                           *model, *optimizer, [this] { return data->next(Split::kTrain); },
                           micro_batches_of(batch_size)));
  for (const MicroBatchLoss& loss : losses) report.micro_losses.push_back(loss.mean());
  report.lm_loss = reported(losses);
  if (options.check_for_nan_in_loss_and_grad && std::isnan(report.lm_loss)) {
    return make_error(StatusCode::kOutOfRange,
                      "iteration {}: found NaN in the loss (--no-check-for-nan-in-loss-and-grad "
                      "goes on)",
                      report.iteration);
  }
  MEG_ASSIGN_OR_RETURN(report.outcome,
                       optimizer->step({.lr = report.lr, .weight_decay = report.weight_decay}));
  if (!report.outcome.skipped) scheduler->step(batch_size);
  progress.iteration += 1;
  progress.consumed_train_samples += batch_size;
  progress.floating_point_operations += num_floating_point_operations(options.config, batch_size);
  return report_step(report, batch_size);
}

Status Trainer::State::report_step(const StepReport& report, int64_t batch_size) {
  const Losses losses = named(report.lm_loss);
  log.add(losses, report.outcome.skipped);
  IterationFigures figures;
  figures.iteration = progress.iteration;
  figures.train_iters = train_iters;
  figures.consumed_train_samples = progress.consumed_train_samples;
  figures.learning_rate = scheduler->lr();
  figures.global_batch_size = batch_size;
  figures.loss_scale = optimizer->loss_scale();
  if (!report.outcome.skipped) figures.grad_norm = report.outcome.grad_norm;
  if (!report.outcome.skipped && report.outcome.num_zeros.has_value()) {
    figures.num_zeros_in_grad = static_cast<double>(*report.outcome.num_zeros);
  }
  if (tensorboard.has_value()) {
    MEG_RETURN_IF_ERROR(
        write_iteration(*tensorboard, options.tensorboard, figures, losses, /*world_size=*/1));
  }
  if (progress.iteration % options.log_interval == 0) {
    const double elapsed = since_last_line.seconds();
    const double seconds = elapsed / static_cast<double>(log.iterations());
    since_last_line = Stopwatch();
    const Throughput rate = throughput(options.config, batch_size, seconds, /*world_size=*/1);
    hooks.print(log.iteration_line(
        figures, elapsed, std::time(nullptr),
        options.log_throughput ? std::optional(rate.tflops_per_device) : std::nullopt));
    hooks.print(throughput_line(rate));
  }
  if (on_step) on_step(report);
  return {};
}

Result<double> Trainer::State::evaluate(Split split) {
  const int64_t batch_size =
      options.length.eval_global_batch_size.value_or(options.batch_schedule.global_batch_size());
  std::vector<MicroBatchLoss> all;
  for (int64_t i = 0; i < options.length.eval_iters; ++i) {
    MEG_ASSIGN_OR_RETURN(
        const std::vector<MicroBatchLoss> losses,
        forward_only(
            *model, [&] { return data->next(split); }, micro_batches_of(batch_size)));
    all.insert(all.end(), losses.begin(), losses.end());
    if (split == Split::kValid) progress.consumed_valid_samples += batch_size;
  }
  return reported(all);
}

Status Trainer::State::evaluate_and_print(Split split, Evaluation kind) {
  if (!data->has(split) || options.length.eval_iters == 0) return {};
  MEG_ASSIGN_OR_RETURN(const double loss, evaluate(split));
  for (const std::string& line : validation_lines(kind, progress.iteration, named(loss))) {
    hooks.print(line);
  }
  if (tensorboard.has_value() && kind != Evaluation::kFinalTest) {
    MEG_RETURN_IF_ERROR(write_validation(*tensorboard, options.tensorboard, progress.iteration,
                                         progress.consumed_train_samples, named(loss)));
  }
  if (on_evaluation) {
    on_evaluation({.iteration = progress.iteration, .kind = kind, .lm_loss = loss});
  }
  since_last_line = Stopwatch();
  return {};
}

/// Whether the run came to its end; false where it was stopped before.
Result<bool> Trainer::State::train() {
  hooks.print(datetime_line("before the start of training step", std::time(nullptr)));
  const int64_t eval_interval = options.length.eval_interval;
  const auto divides = [this](std::optional<int64_t> interval) {
    return interval.has_value() && progress.iteration % *interval == 0;
  };
  since_last_line = Stopwatch();
  while (progress.iteration < train_iters) {
    MEG_RETURN_IF_ERROR(train_step());
    if (progress.iteration % eval_interval == 0) {
      MEG_RETURN_IF_ERROR(evaluate_and_print(Split::kValid, Evaluation::kDuringTraining));
    }
    const bool stop = hooks.stop_requested && hooks.stop_requested();
    const bool leave = stop || divides(options.exit_interval) || time_is_up();
    const bool due = divides(options.checkpoints.save_interval);
    if (saver.enabled() && (due || leave)) {
      MEG_RETURN_IF_ERROR(save());
      since_last_line = Stopwatch();
    }
    if (!leave) continue;
    hooks.print(fmt::format("exiting program at iteration {}", progress.iteration));
    return false;
  }
  hooks.print(datetime_line("after training is done", std::time(nullptr)));
  const bool saved = saver.last_iteration() == progress.iteration;
  if (saver.enabled() && progress.iteration != 0 && !saved) MEG_RETURN_IF_ERROR(save());
  return true;
}

Trainer::Trainer(std::unique_ptr<State> state) : state_(std::move(state)) {}

Trainer::~Trainer() = default;

Result<std::unique_ptr<Trainer>> Trainer::create(TrainerOptions options, TrainerHooks hooks) {
  auto state = std::make_unique<State>(std::move(options), std::move(hooks));
  MEG_ASSIGN_OR_RETURN(
      const SampleCounts counts,
      count_samples(state->options.length, state->options.batch_schedule, state->options.version));
  state->train_iters = counts.train_iters;
  state->print_theoretical_memory();
  MEG_RETURN_IF_ERROR(state->build_model());
  MEG_RETURN_IF_ERROR(state->load());
  MEG_RETURN_IF_ERROR(state->build_data());
  if (state->options.tensorboard_dir.has_value()) {
    MEG_ASSIGN_OR_RETURN(TensorboardWriter writer,
                         TensorboardWriter::create(*state->options.tensorboard_dir, {}));
    state->tensorboard.emplace(std::move(writer));
  }
  return std::unique_ptr<Trainer>(new Trainer(std::move(state)));
}

void Trainer::watch(std::function<void(const StepReport&)> step,
                    std::function<void(const EvaluationReport&)> evaluation) {
  state_->on_step = std::move(step);
  state_->on_evaluation = std::move(evaluation);
}

Status Trainer::run() {
  State& state = *state_;
  if (!state.options.length.skip_train && !state.data->has(Split::kTrain)) {
    return Status(StatusCode::kInvalidArgument, "there are no samples to train on");
  }
  bool finished = true;
  if (!state.options.length.skip_train) {
    state.hooks.print("training ...");
    MEG_ASSIGN_OR_RETURN(finished, state.train());
  }
  if (finished) {
    MEG_RETURN_IF_ERROR(state.evaluate_and_print(Split::kValid, Evaluation::kFinalValidation));
    MEG_RETURN_IF_ERROR(state.evaluate_and_print(Split::kTest, Evaluation::kFinalTest));
  }
  if (state.tensorboard.has_value()) MEG_RETURN_IF_ERROR(state.tensorboard->flush());
  return state.saver.finish();
}

int64_t Trainer::iteration() const { return state_->progress.iteration; }

nn::GptModel& Trainer::model() { return *state_->model; }

}  // namespace meg::train
