#include "libmeg/train/streamed_losses.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "libmeg/checkpoint/dialects/mp_rank/check_architecture.h"
#include "libmeg/libtorch/torch_guard.h"
#include "libmeg/nn/load_weights.h"
#include "libmeg/train/internal/check_token_ids.h"
#include "libmeg/train/internal/device_batches.h"

// A pipeline of as many stages as there are layers, whose stages come one after another in one
// process: each is built, filled from the checkpoint, takes all samples through and is dropped.

namespace meg::train {
namespace {

/// Whether a sample has the same loss, and comes at the same place, in a micro-batch of its own.
Status check_alone(const TrainerOptions& options) {
  if (options.batches.micro_batch_size == 1) return {};
  if (options.batches.dataloader_type != samples::DataloaderType::kSingle) {
    return make_error(StatusCode::kUnsupported,
                      "dataloader_type: expected single, found another: its order depends on the "
                      "{} samples of a micro-batch",
                      options.batches.micro_batch_size);
  }
  const std::optional<double> capacity = options.model.moe.expert_capacity_factor;
  if (!options.config.num_experts.has_value() || !capacity.has_value()) return {};
  return make_error(StatusCode::kUnsupported,
                    "moe_expert_capacity_factor: expected none, found {}: which tokens are dropped "
                    "depends on all {} samples of a micro-batch",
                    *capacity, options.batches.micro_batch_size);
}

/// Those samples, each a micro-batch of its own on the model's device.
Result<std::vector<DeviceBatch>> read_samples(const TrainerOptions& options,
                                              const SamplesOfBatch& wanted) {
  MEG_ASSIGN_OR_RETURN(samples::GptDatasets datasets, samples::build_gpt_datasets(options.data));
  MEG_RETURN_IF_ERROR(check_token_ids(datasets, options.config.padded_vocab_size));
  BatchOptions batches = options.batches;
  batches.micro_batch_size = 1;
  samples::PerSplit<std::optional<int64_t>> consumed;
  consumed[samples::split_number(samples::Split::kTrain)] = wanted.consumed;
  MEG_ASSIGN_OR_RETURN(TrainingData data,
                       TrainingData::create(std::move(datasets), batches, consumed));
  if (!data.has(samples::Split::kTrain)) {
    return Status(StatusCode::kInvalidArgument, "there are no samples to train on");
  }
  int64_t read = 0;
  int64_t position = 0;
  const NextMicroBatch next = [&]() -> Result<const samples::MicroBatch*> {
    for (; read < position; ++read) MEG_RETURN_IF_ERROR(data.next(samples::Split::kTrain).status());
    ++read;
    return data.next(samples::Split::kTrain);
  };
  DeviceBatches on_device(next, options.model.device, /*copy=*/true);
  std::vector<DeviceBatch> chosen;
  for (const int64_t each : wanted.positions) {
    position = each;
    MEG_ASSIGN_OR_RETURN(DeviceBatch batch, on_device.next());
    chosen.push_back(std::move(batch));
  }
  return chosen;
}

Result<std::vector<SampleLoss>> take_through(const TrainerOptions& options,
                                             const checkpoint::MegatronCheckpoint& checkpoint,
                                             std::vector<DeviceBatch> batches,
                                             const StreamedLossHooks& hooks) {
  const c10::AutoGradMode no_gradients(false);
  nn::GptOptions model_options = options.model;
  model_options.recompute_granularity = model::RecomputeGranularity::kNone;
  const int64_t stages = options.config.num_layers;
  const int64_t all = stages * std::ssize(batches);
  int64_t done = 0;
  std::vector<SampleLoss> losses;
  std::optional<nn::RandomStates> random;
  for (int64_t stage = 0; stage < stages; ++stage) {
    nn::ModelPart part;
    part.sizes.pipeline_model_parallel_size = stages;
    part.pipeline_rank = stage;
    MEG_ASSIGN_OR_RETURN(nn::GptModel model,
                         nn::GptModel::create(options.config, model_options, part));
    MEG_RETURN_IF_ERROR(nn::load_weights(checkpoint, model));
    if (hooks.loaded) MEG_RETURN_IF_ERROR(hooks.loaded(model));
    // Else each layer would drop what the one before it dropped.
    if (random.has_value()) model.share_random_states(*random);
    random.emplace(model.random_states());
    for (DeviceBatch& batch : batches) {
      if (stage + 1 < stages) {
        MEG_ASSIGN_OR_RETURN(batch.input.hidden_states, model.hidden_states(batch.input));
      } else {
        MEG_ASSIGN_OR_RETURN(const at::Tensor of_tokens, model.loss(batch.input, batch.labels));
        losses.push_back({.loss_sum = at::sum(of_tokens * batch.loss_mask).item<double>(),
                          .tokens = batch.loss_mask.sum().item<double>()});
      }
      ++done;
      if (hooks.passed) hooks.passed(done, all);
    }
    if (stage + 1 == stages && model.label_error()[0].item<int>() != 0) {
      return make_error(StatusCode::kOutOfRange, "labels: expected 0 to {}, found others",
                        options.config.padded_vocab_size - 1);
    }
  }
  return losses;
}

}  // namespace

Result<std::vector<SampleLoss>> streamed_losses(const TrainerOptions& options,
                                                const SamplesOfBatch& samples,
                                                const StreamedLossHooks& hooks) {
  MEG_RETURN_IF_ERROR(check_alone(options));
  CheckpointOptions loading = options.checkpoints;
  loading.no_load_optim = true;
  loading.exit_on_missing_checkpoint = true;
  MEG_ASSIGN_OR_RETURN(const std::optional<checkpoint::MegatronCheckpoint> opened,
                       open_checkpoint(loading, [](const std::string&) {}));
  if (!opened.has_value()) {
    return Status(StatusCode::kInvalidArgument, "expected a checkpoint to load, found none");
  }
  MEG_RETURN_IF_ERROR(checkpoint::check_architecture(
      *opened, [&](std::string_view name) -> std::optional<megatron::FieldValue> {
        if (std::ranges::count(loading.not_compared, name) != 0) return std::nullopt;
        return options.args.field(name);
      }));
  std::vector<SampleLoss> losses;
  MEG_RETURN_IF_ERROR(libtorch::torch_guard([&]() -> Status {
    MEG_ASSIGN_OR_RETURN(std::vector<DeviceBatch> batches, read_samples(options, samples));
    MEG_ASSIGN_OR_RETURN(losses, take_through(options, *opened, std::move(batches), hooks));
    return {};
  }));
  return losses;
}

}  // namespace meg::train
