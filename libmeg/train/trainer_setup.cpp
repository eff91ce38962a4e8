#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "libmeg/io/atomic_file.h"
#include "libmeg/libtorch/cuda_backend.h"
#include "libmeg/libtorch/device_figures.h"
#include "libmeg/nn/initialise_weights.h"
#include "libmeg/parallel/check_same.h"
#include "libmeg/train/internal/check_token_ids.h"
#include "libmeg/train/internal/data_digest.h"
#include "libmeg/train/internal/pinned_memory.h"
#include "libmeg/train/internal/trainer_state.h"

// Sets a run up in Megatron's order, in which its log lines come: the model with its first weights,
// the optimizer, the checkpoint over both, then the data from where the checkpoint stopped.

namespace meg::train {
namespace {

/// Between the seeds of a pipeline's stages, as in Megatron-LM megatron/training/initialize.py:
/// _set_random_seed.
constexpr uint64_t kSeedStep = 100;

}  // namespace

Status Trainer::State::begin_trace() {
  if (!options.trace_schedule.has_value()) return {};
  const auto check = [this] {
    // Opening the file checks now whether it can be written at the end; nothing is left of it.
    return io::AtomicFile::create(*options.trace_schedule).status().with_prefix("`trace_schedule`");
  };
  MEG_RETURN_IF_ERROR(ranks.agree(ranks.mesh().rank() == 0 ? check() : Status()));
  trace.emplace(options.model.device);
  // All groups are replaced by ones that report to the trace, so it has to come before anything
  // that copies `ranks`.
  ranks = ranks.observed(
      [this](const parallel::Communication& communication) { trace->observe(communication); });
  return {};
}

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
  // The estimate is only for messages: where a shape is not covered by Megatron's formula the run
  // continues without it.
  model::TheoreticalMemoryOptions run;
  run.sizes = part().sizes;
  run.data_parallel_size = ranks.data()->size();
  run.use_distributed_optimizer = options.optimizer.use_distributed_optimizer;
  run.sequence_parallel = part().tensor_parallel.splits_sequences();
  run.micro_batch_size = options.batches.micro_batch_size;
  run.num_microbatches =
      micro_batches_of(options.batch_schedule.global_batch_size(), samples::Split::kTrain);
  run.recompute_granularity = options.model.recompute_granularity;
  run.estimates_any_activations = options.version.estimates_any_activations;
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
               // Peak rates are those of 16-bit matrix products; a share of them would mean nothing
               // for an fp32 run.
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
      "lower `micro_batch_size` or use `recompute_granularity` full `recompute_method` uniform "
      "`recompute_num_layers` 1",
      status.message(), memory->weight_and_optimizer_bytes / kMegabyte,
      memory->layers_activation_bytes / kMegabyte);
}

// What Megatron's MoELayer refuses in training: without it all tensor-parallel ranks would send the
// same tokens to the experts.
Status Trainer::State::check_experts() const {
  const nn::ModelPart part = this->part();
  if (!options.config.num_experts.has_value()) return {};
  // Now, not after the hours before the first checkpoint.
  if (saver.enabled()) {
    MEG_RETURN_IF_ERROR(checkpoint::check_expert_sizes(part.sizes, options.checkpoints.ckpt_format)
                            .with_prefix("`ckpt_format` torch"));
  }
  if (part.tensor_parallel.size() == 1 || part.tensor_parallel.sequence_parallel) return {};
  return make_error(StatusCode::kInvalidArgument,
                    "`num_experts` on {} tensor-parallel ranks: requires `sequence_parallel`",
                    part.tensor_parallel.size());
}

Status Trainer::State::build_model() {
  MEG_RETURN_IF_ERROR(check_experts());
  nn::GptOptions model_options = options.model;
  model_options.seed += kSeedStep * static_cast<uint64_t>(ranks.pipeline()->rank());
  nn::ModelPart part = this->part();
  for (; part.chunk < part.sizes.virtual_pipeline_model_parallel_size; ++part.chunk) {
    MEG_ASSIGN_OR_RETURN(nn::GptModel chunk,
                         nn::GptModel::create(options.config, model_options, part));
    MEG_RETURN_IF_ERROR(nn::initialise_weights(chunk, static_cast<uint64_t>(options.data.seed)));
    chunks.push_back(std::move(chunk));
    // The chunks of one rank draw from the same generators one after the other, as the modules of
    // one Megatron process do.
    chunks.back().share_random_states(chunks.front().random_states());
  }
  model.emplace(chunks);
  if (ranks.data()->rank() == 0) {
    hooks.print(fmt::format(
        " > number of parameters on (tensor, pipeline) model parallel rank ({}, {}): {}",
        ranks.tensor()->rank(), ranks.pipeline()->rank(), model->parameter_count()));
  }
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
    // A checkpoint follows at once, although it overwrites the weights that were just drawn: it may
    // lack the optimizer, and what it lacks stays as it was built.
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
  const auto& left_out = options.checkpoints.not_compared;
  const megatron::FieldLookup run =
      [&](std::string_view name) -> std::optional<megatron::FieldValue> {
    if (std::ranges::count(left_out, name) != 0) return std::nullopt;
    return options.args.field(name);
  };
  MEG_ASSIGN_OR_RETURN(progress, report->timers().measure("load-checkpoint", 0, [&] {
    return load_checkpoint(*checkpoint, options.checkpoints, run, parts(), print_first());
  }));
  report->times({"load-checkpoint"});
  saver.note_loaded(*checkpoint, progress.iteration);
  MEG_RETURN_IF_ERROR(count_unsaid_samples());
  if (hooks.loaded) MEG_RETURN_IF_ERROR(hooks.loaded(parts(), progress));
  tell_other_batches();
  return {};
}

// The run's iterations are those of its own batches from the first sample on, as in Megatron, and
// the checkpoint's are those of other batches: their difference is not the rest of the samples.
void Trainer::State::tell_other_batches() const {
  const samples::BatchSchedule& batches = options.batch_schedule;
  const std::optional<int64_t> wanted = options.length.train_samples;
  int64_t consumed = progress.consumed_train_samples;
  if (!wanted.has_value() || batches.consumed_before(progress.iteration + 1) == consumed) return;
  const int64_t left = std::max<int64_t>(0, train_iters - progress.iteration);
  for (int64_t i = 0; i < left; ++i) consumed += batches.batch_size_after(consumed);
  print(fmt::format(
      "WARNING: `train_samples` {} in batches of {} is {} iterations; the checkpoint is "
      "at iteration {} after {} samples in batches of other sizes: {} iterations follow, "
      "and the run ends after {} samples, as in Megatron-LM",
      *wanted, batches.global_batch_size(), train_iters, progress.iteration,
      progress.consumed_train_samples, left, consumed));
}

// Mirrors Megatron-LM megatron/training/training.py: build_train_valid_test_data_loaders. Without
// it a run that goes on from a checkpoint without args would see its first samples once more.
Status Trainer::State::count_unsaid_samples() {
  const samples::RunLength& length = options.length;
  if (progress.iteration == 0) return {};
  if (progress.consumed_train_samples == 0) {
    if (length.train_samples.has_value()) {
      return make_error(StatusCode::kInvalidArgument,
                        "{}: expected consumed_train_samples in its args, where `train_samples` "
                        "goes on, found none",
                        *options.checkpoints.load);
    }
    progress.consumed_train_samples =
        progress.iteration * options.batch_schedule.global_batch_size();
  }
  const bool counts_evaluations = !length.train_samples.has_value() && length.eval_interval > 0;
  if (progress.consumed_valid_samples == 0 && counts_evaluations) {
    const int64_t skipped = length.start_eval_at_iter.value_or(0) / length.eval_interval;
    const int64_t done = progress.iteration / length.eval_interval - skipped;
    progress.consumed_valid_samples =
        std::max<int64_t>(0, done) * length.eval_iters * evaluation_batch_size();
  }
  return {};
}

Status Trainer::State::check_same_data() const {
  if (ranks.mesh().world_size() == 1) return {};
  // Each rank could fail on its own here, where a file is missing on its machine: all hear of it
  // before they compare.
  const Result<std::string> digest = data_digest(options.data);
  MEG_RETURN_IF_ERROR(ranks.agree(digest.status()));
  // What files on each machine decide beside the command line: the tokenizer's, and the checkpoint
  // that was loaded.
  return parallel::check_same(
      "data",
      fmt::format("vocabulary of {} tokens with end of document {}\niteration {} after {} training "
                  "and {} validation samples\n{}",
                  options.data.vocab_size, options.data.eod, progress.iteration,
                  progress.consumed_train_samples, progress.consumed_valid_samples, *digest),
      ranks);
}

// Copies that share experts must compute as many micro-batches: an exchange of tokens waits for all
// of them.
Status Trainer::State::check_full_validation(const samples::GptDatasets& datasets) const {
  if (!options.length.full_validation || !ranks.divides_experts_apart()) return {};
  const auto& valid = datasets.splits[samples::split_number(samples::Split::kValid)];
  const int64_t found = valid == nullptr ? 0 : valid->size();
  const int64_t copies = ranks.data()->size();
  if (found % copies == 0) return {};
  return make_error(StatusCode::kUnsupported,
                    "`full_validation`: expected as many samples on each of the {} data-parallel "
                    "ranks, which share experts, found {} samples: not supported yet",
                    copies, found);
}

Status Trainer::State::build_data() {
  print("> building train, validation, and test datasets ...");
  const auto& samples = options.data.samples;
  for (const std::string& line : logging::target_sizes_lines(samples[0], samples[1], samples[2])) {
    print(line);
  }
  MEG_RETURN_IF_ERROR(check_same_data());
  MEG_ASSIGN_OR_RETURN(samples::GptDatasets datasets, samples::build_gpt_datasets(options.data));
  for (const std::string& note : datasets.notes) print("> " + note);
  MEG_RETURN_IF_ERROR(check_token_ids(datasets, options.config.padded_vocab_size));
  MEG_RETURN_IF_ERROR(check_full_validation(datasets));
  // Copies to a GPU overlap with computing only from page-locked memory.
  print("> finished creating GPT datasets ...");
  if (options.model.device.is_cuda()) options.batches.memory = pinned_memory();
  MEG_ASSIGN_OR_RETURN(
      data, TrainingData::create(std::move(datasets), options.batches, consumed_samples()));
  return {};
}

// Megatron counts the validation samples that were consumed through all evaluations, so that a
// continued run evaluates the next ones; the test split, and a full validation, begin at the first
// sample each time.
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

}  // namespace meg::train
