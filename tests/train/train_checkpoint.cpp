/// train_checkpoint LOAD WINDOWS MASKS SAVE
/// Trains from a checkpoint's weights as its args say, for megatron_core_trains.py, and saves.
/// WINDOWS: .npy, int64 [steps, micro-batches, b, s + 1]; MASKS: int64 [.., b, s], 1: has a loss.
/// Prints of every step what it used and found, as a line of JSON.
#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "libmeg/schedule/scheduler_flags.h"
#include "libmeg/train/checkpointing.h"
#include "libmeg/train/internal/train_step.h"
#include "tests/nn/oracle_model.h"

namespace meg::train {
namespace {

std::optional<double> number(const checkpoint::MegatronCheckpoint& checkpoint,
                             std::string_view name) {
  const std::optional<megatron::FieldValue> value = checkpoint.arg(name);
  if (!value.has_value()) return std::nullopt;
  if (const auto* integer = std::get_if<int64_t>(&*value)) return static_cast<double>(*integer);
  const auto* real = std::get_if<double>(&*value);
  return real == nullptr ? std::nullopt : std::optional(*real);
}

schedule::SchedulerFlags schedule_of(const checkpoint::MegatronCheckpoint& checkpoint,
                                     int64_t batch_size) {
  schedule::SchedulerFlags flags;
  flags.train_iters = static_cast<int64_t>(*number(checkpoint, "train_iters"));
  flags.lr_warmup_iters = static_cast<int64_t>(*number(checkpoint, "lr_warmup_iters"));
  flags.global_batch_size = batch_size;
  flags.lr = number(checkpoint, "lr");
  flags.min_lr = *number(checkpoint, "min_lr");
  flags.decoupled_lr = number(checkpoint, "decoupled_lr");
  flags.decoupled_min_lr = number(checkpoint, "decoupled_min_lr");
  flags.weight_decay = *number(checkpoint, "weight_decay");
  return flags;
}

/// Micro-batches of [m, b, s + 1] windows.
class WindowBatches {
 public:
  WindowBatches(const at::Tensor& windows, const at::Tensor& masks) {
    const int64_t s = masks.size(-1);
    tokens_ = windows.narrow(-1, 0, s).contiguous();
    labels_ = windows.narrow(-1, 1, s).contiguous();
    masks_ = masks.to(at::kFloat).contiguous();
    positions_ = at::arange(s).expand_as(tokens_[0]).contiguous();
  }

  NextMicroBatch next() {
    return [this]() -> Result<const samples::MicroBatch*> {
      const int64_t i = taken_++;
      batch_.samples = tokens_.size(1);
      batch_.sequence_length = tokens_.size(2);
      batch_.tokens = values<int64_t>(tokens_[i]);
      batch_.labels = values<int64_t>(labels_[i]);
      batch_.loss_mask = values<float>(masks_[i]);
      batch_.position_ids = values<int64_t>(positions_);
      return &batch_;
    };
  }

 private:
  template <class T>
  static std::span<T> values(const at::Tensor& tensor) {
    return {tensor.mutable_data_ptr<T>(), static_cast<size_t>(tensor.numel())};
  }

  at::Tensor tokens_, labels_, masks_, positions_;
  samples::MicroBatch batch_;
  int64_t taken_ = 0;
};

Status train_and_save(const std::string& load, const at::Tensor& windows, const at::Tensor& masks,
                      const std::string& save) {
  MEG_ASSIGN_OR_RETURN(const checkpoint::MegatronCheckpoint checkpoint,
                       test::open_checkpoint(load));
  MEG_ASSIGN_OR_RETURN(nn::GptModel model, test::model_of(checkpoint));
  MEG_ASSIGN_OR_RETURN(auto optimizer, Optimizer::create(model, nullptr, {.clip_grad = 0}));
  const int64_t micro_batches = windows.size(1);
  const int64_t batch_size = micro_batches * windows.size(2);
  MEG_ASSIGN_OR_RETURN(
      schedule::OptimizerParamScheduler scheduler,
      schedule::get_optimizer_param_scheduler(schedule_of(checkpoint, batch_size)));
  const bool per_token = checkpoint.arg("calculate_per_token_loss") == megatron::FieldValue(true);
  for (int64_t i = 0; i < windows.size(0); ++i) {
    WindowBatches batches(windows[i], masks[i]);
    MEG_ASSIGN_OR_RETURN(
        const auto losses,
        forward_backward(model, *optimizer, batches.next(), micro_batches,
                         per_token ? StepLoss::kMeanOfTokens : StepLoss::kMeanOfMicroBatches));
    const Optimizer::Rates rates = {.lr = scheduler.lr(),
                                    .weight_decay = scheduler.weight_decay(),
                                    .decoupled_lr = scheduler.decoupled_lr()};
    MEG_ASSIGN_OR_RETURN(const Optimizer::Outcome outcome, optimizer->step(rates));
    scheduler.step(batch_size);
    MEG_ASSIGN_OR_RETURN(const double params_norm, optimizer->params_norm());
    std::string auxiliary;
    for (const auto& [name, sum] : std::exchange(model.auxiliary_losses().sums, {})) {
      const double count = static_cast<double>(model.config().num_moe_layers() * micro_batches);
      auxiliary += fmt::format(R"({}"{}": {})", auxiliary.empty() ? "" : ", ", name,
                               sum.item<double>() / count);
    }
    fmt::print(R"({{"loss": {}, "grad_norm": {}, "params_norm": {}, "lr": {}, "decoupled_lr": {}, )"
               R"("auxiliary": {{{}}}}})"
               "\n",
               reported_loss(losses, /*over_tokens=*/true), outcome.grad_norm, params_norm,
               rates.lr, rates.decoupled_lr.value_or(rates.lr), auxiliary);
  }
  checkpoint::TrainingArgs args;
  for (const char* name :
       {"num_layers", "hidden_size", "ffn_hidden_size", "num_attention_heads", "kv_channels",
        "max_position_embeddings", "padded_vocab_size", "make_vocab_size_divisible_by",
        "tensor_model_parallel_size", "pipeline_model_parallel_size"}) {
    args.set(name, {std::get<int64_t>(*checkpoint.arg(name))});
  }
  args.set("tokenizer_type", {std::string("NullTokenizer")});
  args.set("add_bias_linear", {checkpoint.arg("add_bias_linear") == megatron::FieldValue(true)});
  for (const char* name :
       {"num_experts", "moe_ffn_hidden_size", "swiglu", "group_query_attention", "num_query_groups",
        "moe_layer_freq", "moe_router_enable_expert_bias", "moe_shared_expert_intermediate_size",
        "moe_shared_expert_gate", "normalization", "qk_layernorm", "softmax_type"}) {
    const auto value = checkpoint.described_arg(name);
    if (value.has_value()) args.set(name, checkpoint::whole_numbers_arg(*value));
  }
  args.set("untie_embeddings_and_output_weights",
           {checkpoint.arg("untie_embeddings_and_output_weights") == megatron::FieldValue(true)});
  CheckpointOptions options;
  options.save = save;
  CheckpointSaver saver(options, args, /*seed=*/1);
  const parallel::ParallelState ranks;
  ModelChunks chunks(model);
  return saver.save(
      {.iteration = windows.size(0)},
      {.model = chunks, .optimizer = *optimizer, .scheduler = scheduler, .ranks = ranks},
      [](const std::string&) {});
}

}  // namespace
}  // namespace meg::train

int main(int count, char** arguments) {
  if (count != 5) return 2;
  const at::Tensor windows = meg::test::read_npy<int64_t>(arguments[2]);
  const at::Tensor masks = meg::test::read_npy<int64_t>(arguments[3]);
  const meg::Status status = meg::train::train_and_save(arguments[1], windows, masks, arguments[4]);
  if (!status.ok()) fmt::print(stderr, "error: {}\n", status.message());
  return status.ok() ? 0 : 1;
}
