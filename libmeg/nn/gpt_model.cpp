#include "libmeg/nn/gpt_model.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "libmeg/model/pipeline_layout.h"
#include "libmeg/nn/cross_entropy.h"
#include "libmeg/nn/cuda_backend.h"
#include "libmeg/nn/embedding.h"
#include "libmeg/nn/linear_product.h"
#include "libmeg/nn/transformer_block.h"
#include "libmeg/parallel/torch_guard.h"

namespace meg::nn {
namespace {

using parallel::torch_guard;

PipelineLayout layout_of(const GptConfig& config, const ModelPart& part) {
  return {config.num_layers, part.sizes.pipeline_model_parallel_size,
          part.sizes.virtual_pipeline_model_parallel_size};
}

std::string sizes_text(const at::Tensor& tensor) {
  if (!tensor.defined()) return "nothing";
  return fmt::format("{} [{}]", c10::toString(tensor.scalar_type()),
                     fmt::join(tensor.sizes(), ", "));
}

Status wrong_tensor(std::string_view name, std::string_view expected, const at::Tensor& found) {
  return make_error(StatusCode::kInvalidArgument, "{}: expected {}, found {}", name, expected,
                    sizes_text(found));
}

/// The tensor that `work` makes, or what LibTorch threw.
template <class Work>
Result<at::Tensor> guarded(Work work) {
  at::Tensor result;
  MEG_RETURN_IF_ERROR(torch_guard([&] {
    result = work();
    return Status();
  }));
  return result;
}

/// Rows of a table that a tensor asks for. On a GPU asking would wait for it: there LibTorch's
/// kernels stop the program instead.
Status check_rows(std::string_view name, const at::Tensor& rows, int64_t count) {
  if (!rows.is_cpu() || rows.numel() == 0) return Status();
  const auto [least, most] = at::aminmax(rows);
  const int64_t lowest = least.item<int64_t>();
  const int64_t highest = most.item<int64_t>();
  if (lowest >= 0 && highest < count) return Status();
  return make_error(StatusCode::kOutOfRange, "{}: expected 0 to {}, found {}", name, count - 1,
                    lowest < 0 ? lowest : highest);
}

}  // namespace

struct GptModel::State {
  State(const GptConfig& model_config, const GptOptions& model_options, const ModelPart& model_part,
        ParameterStore parameters, RandomStates states)
      : config(model_config),
        options(model_options),
        part(model_part),
        layout(layout_of(config, part)),
        is_first(layout.is_first(part.pipeline_rank, part.chunk)),
        is_last(layout.is_last(part.pipeline_rank, part.chunk)),
        store(std::move(parameters)),
        random(std::move(states)),
        decoder(config, options, store, layout.first_layer(part.pipeline_rank, part.chunk),
                layout.layers_per_chunk(), is_last) {
    if (is_first) embedding.emplace(options, store);
    if (!is_last) return;
    for (const std::string_view name : {std::string_view("output_layer.weight"), kTiedCopyName,
                                        std::string_view("embedding.word_embeddings.weight")}) {
      if (!output_weight.defined()) output_weight = store.find(name);
    }
  }

  GptConfig config;
  GptOptions options;
  ModelPart part;
  PipelineLayout layout;
  bool is_first, is_last;
  ParameterStore store;
  RandomStates random;
  std::optional<Embedding> embedding;
  TransformerBlock decoder;
  at::Tensor output_weight;  ///< [v, h]; undefined where the part is not the last.
  RotaryTable rotary;        ///< Of the last sequence length.
  bool training = true;

  Status check(const GptInput& input) const;
  Status check_last() const;
  Status check_last(const GptInput& input) const;
  Status check_labels(const GptInput& input, const at::Tensor& labels) const;
  ForwardContext context(const GptInput& input);
  at::Tensor hidden_states(const GptInput& input);
};

Status GptModel::State::check(const GptInput& input) const {
  const at::Tensor& first = is_first ? input.tokens : input.hidden_states;
  if (is_first && !(first.defined() && first.dim() == 2 && first.scalar_type() == at::kLong)) {
    return wrong_tensor("tokens", "Long [b, s]", first);
  }
  if (!is_first && !(first.defined() && first.dim() == 3 && first.size(2) == config.hidden_size &&
                     first.scalar_type() == options.params_dtype)) {
    return wrong_tensor(
        "hidden_states",
        fmt::format("{} [b, s, {}]", c10::toString(options.params_dtype), config.hidden_size),
        first);
  }
  const int64_t b = first.size(0);
  const int64_t s = first.size(1);
  const bool has_positions = config.position_embedding_type == "learned_absolute";
  if (has_positions && s > config.max_position_embeddings) {
    return make_error(StatusCode::kInvalidArgument,
                      "tokens: expected at most max_position_embeddings {} in a sequence, found {}",
                      config.max_position_embeddings, s);
  }
  const auto fits_batch = [&](const at::Tensor& tensor) {
    return tensor.size(0) == b || tensor.size(0) == 1;
  };
  const at::Tensor& positions = input.position_ids;
  if (positions.defined() && !(positions.dim() == 2 && fits_batch(positions) &&
                               positions.size(1) == s && positions.scalar_type() == at::kLong)) {
    return wrong_tensor("position_ids", fmt::format("Long [{}, {}]", b, s), positions);
  }
  const at::Tensor& mask = input.attention_mask;
  if (mask.defined() &&
      !(mask.dim() == 4 && fits_batch(mask) && mask.size(1) == 1 && mask.size(2) == s &&
        mask.size(3) == s && mask.scalar_type() == at::kBool)) {
    return wrong_tensor("attention_mask", fmt::format("Bool [{}, 1, {}, {}]", b, s, s), mask);
  }
  if (mask.defined() && options.device.is_cuda() &&
      options.attention_backend == AttentionBackend::kFlash) {
    return make_error(StatusCode::kUnsupported,
                      "attention_backend flash: takes no attention mask; expected auto, fused, "
                      "unfused or local");
  }
  if (is_first) MEG_RETURN_IF_ERROR(check_rows("tokens", first, config.padded_vocab_size));
  if (is_first && has_positions && positions.defined()) {
    return check_rows("position_ids", positions, config.max_position_embeddings);
  }
  return Status();
}

Status GptModel::State::check_last(const GptInput& input) const {
  MEG_RETURN_IF_ERROR(check_last());
  return check(input);
}

Status GptModel::State::check_last() const {
  if (is_last) return Status();
  return make_error(StatusCode::kInvalidArgument,
                    "pipeline rank {}: only the last of {} stages has an output layer",
                    part.pipeline_rank, part.sizes.pipeline_model_parallel_size);
}

Status GptModel::State::check_labels(const GptInput& input, const at::Tensor& labels) const {
  MEG_RETURN_IF_ERROR(check_last(input));
  const at::Tensor& first = is_first ? input.tokens : input.hidden_states;
  if (!(labels.defined() && labels.dim() == 2 && labels.scalar_type() == at::kLong &&
        labels.size(0) == first.size(0) && labels.size(1) == first.size(1))) {
    return wrong_tensor("labels", fmt::format("Long [{}, {}]", first.size(0), first.size(1)),
                        labels);
  }
  return check_rows("labels", labels, config.padded_vocab_size);
}

ForwardContext GptModel::State::context(const GptInput& input) {
  const int64_t s = (is_first ? input.tokens : input.hidden_states).size(1);
  ForwardContext context;
  context.training = training;
  context.random = &random;
  context.attention_mask = core_attention_mask(options, training, input.attention_mask, s);
  if (config.position_embedding_type == "rope") {
    if (!rotary.cosine.defined() || rotary.cosine.size(0) != s) {
      rotary = rotary_table(config, options, s);
    }
    context.rotary = rotary;
  }
  return context;
}

at::Tensor GptModel::State::hidden_states(const GptInput& input) {
  const ForwardContext shared = context(input);
  return decoder.forward(
      is_first ? embedding->forward(input.tokens, input.position_ids, shared) : input.hidden_states,
      shared);
}

GptModel::GptModel(std::unique_ptr<State> state) : state_(std::move(state)) {}

GptModel::GptModel(GptModel&&) noexcept = default;
GptModel& GptModel::operator=(GptModel&&) noexcept = default;
GptModel::~GptModel() = default;

Result<GptModel> GptModel::create(const GptConfig& config, const GptOptions& options,
                                  const ModelPart& part) {
  MEG_RETURN_IF_ERROR(options.check(config));
  if (part.sizes.tensor_model_parallel_size != 1) {
    return make_error(StatusCode::kUnsupported,
                      "tensor_model_parallel_size: expected 1, found {}: models in tensor-parallel "
                      "parts are not supported yet",
                      part.sizes.tensor_model_parallel_size);
  }
  if (options.device.is_cuda() && !load_cuda_backend()) {
    return Status(StatusCode::kInvalidArgument, "device: expected a GPU for cuda, found none");
  }
  MEG_ASSIGN_OR_RETURN(ParameterStore store, ParameterStore::create(config, options, part));
  MEG_ASSIGN_OR_RETURN(RandomStates random,
                       RandomStates::create(options.device, options.seed, part.tensor_rank));
  std::unique_ptr<State> state;
  MEG_RETURN_IF_ERROR(torch_guard([&] {
    state = std::make_unique<State>(config, options, part, std::move(store), std::move(random));
    return Status();
  }));
  return GptModel(std::move(state));
}

const GptConfig& GptModel::config() const { return state_->config; }

const GptOptions& GptModel::options() const { return state_->options; }

const ModelPart& GptModel::part() const { return state_->part; }

std::span<const GptParameter> GptModel::parameters() const { return state_->store.all(); }

int64_t GptModel::parameter_count() const {
  int64_t count = 0;
  for (const GptParameter& parameter : parameters()) count += parameter.tensor.numel();
  return count;
}

void GptModel::set_training(bool training) { state_->training = training; }

RandomStates& GptModel::random_states() { return state_->random; }

Result<at::Tensor> GptModel::hidden_states(const GptInput& input) {
  MEG_RETURN_IF_ERROR(state_->check(input));
  return guarded([&] { return state_->hidden_states(input); });
}

Result<at::Tensor> GptModel::logits(const GptInput& input) {
  MEG_RETURN_IF_ERROR(state_->check_last(input));
  return guarded([&] {
    return at::linear(state_->hidden_states(input), state_->output_weight).to(at::kFloat);
  });
}

Result<at::Tensor> GptModel::logits_of(const at::Tensor& hidden_rows) {
  MEG_RETURN_IF_ERROR(state_->check_last());
  const int64_t hidden_size = state_->config.hidden_size;
  if (!(hidden_rows.defined() && hidden_rows.dim() == 2 && hidden_rows.size(1) == hidden_size &&
        hidden_rows.scalar_type() == state_->options.params_dtype)) {
    return wrong_tensor(
        "hidden_rows",
        fmt::format("{} [n, {}]", c10::toString(state_->options.params_dtype), hidden_size),
        hidden_rows);
  }
  return guarded([&] { return linear_product(hidden_rows, state_->output_weight).to(at::kFloat); });
}

Result<at::Tensor> GptModel::loss(const GptInput& input, const at::Tensor& labels) {
  MEG_RETURN_IF_ERROR(state_->check_labels(input, labels));
  return guarded([&] {
    return cross_entropy(at::linear(state_->hidden_states(input), state_->output_weight), labels);
  });
}

}  // namespace meg::nn
