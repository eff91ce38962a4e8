#include "libmeg/nn/gpt_model.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/autograd.h>

#include <atomic>
#include <utility>

#include "libmeg/libtorch/cuda_backend.h"
#include "libmeg/libtorch/torch_guard.h"
#include "libmeg/model/pipeline_layout.h"
#include "libmeg/nn/internal/decode_graphs.h"
#include "libmeg/nn/internal/input_checks.h"
#include "libmeg/nn/layers/internal/embedding.h"
#include "libmeg/nn/layers/internal/transformer_block.h"
#include "libmeg/nn/operators/attention_scores.h"
#include "libmeg/nn/operators/internal/cross_entropy.h"
#include "libmeg/nn/operators/internal/exchange.h"
#include "libmeg/nn/operators/internal/linear_product.h"
#include "libmeg/nn/operators/internal/vocab_parallel.h"

namespace meg::nn {
namespace {

using libtorch::torch_guard;

/// The tensor that `work` makes, or what LibTorch threw.
template <class Work>
Result<at::Tensor> guarded(Work work) {
  at::Tensor result;
  MEG_RETURN_IF_ERROR(libtorch::torch_guard([&] {
    result = work();
    return Status();
  }));
  return result;
}

int64_t next_model() {
  static std::atomic<int64_t> next{0};
  return next++;
}

}  // namespace

struct GptModel::State {
  State(const model::GptConfig& model_config, const GptOptions& model_options,
        const ModelPart& model_part, const model::PipelineLayout& layout, ParameterStore parameters,
        RandomStates states)
      : config(model_config),
        options(model_options),
        part(model_part),
        is_first(layout.is_first(part.pipeline_rank, part.chunk)),
        is_last(layout.is_last(part.pipeline_rank, part.chunk)),
        store(std::move(parameters)),
        random(std::move(states)),
        decoder(config, options, store, layout.first_layer(part.pipeline_rank, part.chunk),
                layout.layers(part.pipeline_rank, part.chunk), is_last) {
    if (is_first) embedding.emplace(options, store);
    // Only the last part has an output layer, and only there labels are looked at.
    if (!is_last) return;
    // The output layer's own weight, else the copy that the last stage has of the embedding, else
    // (on a stage that is also the first) the embedding itself.
    for (const std::string_view name :
         {std::string_view("output_layer.weight"), model::kTiedCopyName,
          std::string_view("embedding.word_embeddings.weight")}) {
      if (!output_weight.defined()) output_weight = store.find(name);
    }
    // On a GPU a bad label is noted here and read with the losses: a check of each batch would make
    // the host wait for the device once more.
    label_error = at::zeros({1}, at::dtype(at::kInt).device(options.device));
  }

  const int64_t number = next_model();  ///< No other model's.
  model::GptConfig config;
  GptOptions options;
  ModelPart part;
  bool is_first, is_last;
  ParameterStore store;
  RandomStates random;
  std::optional<Embedding> embedding;
  TransformerBlock decoder;
  at::Tensor output_weight;   ///< [v, h]; undefined where the part is not the last.
  at::Tensor label_error;     ///< As GptModel's.
  RotaryTables rotary;        ///< Of the last sequence length.
  RotaryTables cache_rotary;  ///< Of the last cache's capacity.
  bool training = true;
  AuxiliaryLosses auxiliary_losses;
  std::function<void(size_t)> before_use;

  Status check_last() const;
  Status check_last(const GptInput& input) const;
  Status check_labels(const GptInput& input, const at::Tensor& labels) const;

  InputRules rules() const { return {config, options, is_first, is_last, part.tensor_parallel}; }

  ForwardContext context(const GptInput& input);
  at::Tensor hidden_states(const GptInput& input);
  /// This rank's part of the vocabulary.
  at::Tensor part_of_logits(const GptInput& input);

  /// The product with the output layer, scaled and bounded as the model has it.
  at::Tensor part_of_logits_of(const at::Tensor& hidden) const {
    at::Tensor logits = linear_product(hidden, output_weight);
    if (options.logits_scaling != 1) logits = logits / options.logits_scaling;
    return softcapped({.softcap = options.final_logit_softcapping}, logits);
  }

  at::Tensor logits(const at::Tensor& part_of_logits) const {
    return whole_vocabulary(part_of_logits, part.tensor_parallel).to(at::kFloat);
  }

  /// The tables for all positions of a cache; undefined tensors where the model has none.
  RotaryTables rotary_of_cache(int64_t capacity);
  at::Tensor cached_pass(const CachedInput& input, const CacheStep& step,
                         const RotaryTables& tables);
  bool suits_graphs(const CachedInput& input, const CachePlaces& places) const;
  at::Tensor hidden_states(const CachedInput& input, KvCache& cache);
};

Status GptModel::State::check_last(const GptInput& input) const {
  MEG_RETURN_IF_ERROR(check_last());
  return check_input(rules(), input);
}

Status GptModel::State::check_last() const {
  if (is_last) return Status();
  return make_error(StatusCode::kInvalidArgument,
                    "pipeline rank {}: only the last of {} stages has an output layer",
                    part.pipeline_rank, part.sizes.pipeline_model_parallel_size);
}

Status GptModel::State::check_labels(const GptInput& input, const at::Tensor& labels) const {
  MEG_RETURN_IF_ERROR(check_last(input));
  return nn::check_labels(rules(), input, labels);
}

ForwardContext GptModel::State::context(const GptInput& input) {
  const TensorParallel& ranks = part.tensor_parallel;
  // With sequence parallelism the states between stages are a rank's part of the sequence, the
  // tokens of the first stage all of it.
  const int64_t parts = !is_first && ranks.splits_sequences() ? ranks.size() : 1;
  const int64_t s = (is_first ? input.tokens : input.hidden_states).size(1) * parts;
  ForwardContext context;
  context.training = training;
  context.auxiliary_losses = &auxiliary_losses;
  context.random = &random;
  context.before_use = &before_use;
  // Ranks drop elements of different parts then; with the shared stream they would all use one
  // mask.
  if (ranks.splits_sequences()) context.hidden_stream = RandomStates::Stream::kModelParallel;
  context.rows = input.rows;
  set_attention(context, config, options, input.attention_mask, input.document_lengths, s);
  // Kept from step to step: training has one sequence length, evaluation at most another.
  if (!rotary.all.cosine.defined() || rotary.all.cosine.size(0) != s) {
    rotary = rotary_tables(config, options, s);
  }
  context.rotary = rotary;
  return context;
}

at::Tensor GptModel::State::hidden_states(const GptInput& input) {
  const ForwardContext shared = context(input);
  return decoder.forward(
      is_first ? embedding->forward(input.tokens, input.position_ids, shared) : input.hidden_states,
      shared);
}

at::Tensor GptModel::State::part_of_logits(const GptInput& input) {
  return part_of_logits_of(enter_matrix(hidden_states(input), part.tensor_parallel));
}

RotaryTables GptModel::State::rotary_of_cache(int64_t capacity) {
  if (!cache_rotary.all.cosine.defined() || cache_rotary.all.cosine.size(0) != capacity) {
    cache_rotary = rotary_tables(config, options, capacity);
  }
  return cache_rotary;
}

at::Tensor GptModel::State::cached_pass(const CachedInput& input, const CacheStep& step,
                                        const RotaryTables& tables) {
  ForwardContext context;
  context.random = &random;
  context.before_use = &before_use;
  context.rotary = tables.rows(step.positions());
  context.cache = &step;
  at::Tensor states = input.hidden_states;
  if (is_first) {
    states = embedding->forward(input.tokens.unsqueeze(0), step.positions().unsqueeze(0), context);
  }
  return decoder.forward(states, context);
}

bool GptModel::State::suits_graphs(const CachedInput& input, const CachePlaces& places) const {
  // Ranks exchange what they compute by other streams, several tokens' attention depends on their
  // lengths, and the host asks how many tokens each expert has.
  if (config.num_experts.has_value() || config.attention_window.has_value() ||
      options.attn_logit_softcapping.has_value() || options.rotary_base_local.has_value()) {
    return false;
  }
  return is_first && is_last && part.tensor_parallel.size() == 1 && !before_use &&
         !places.has_several && input.tokens.size(0) <= DecodeGraphs::kMaxTokens;
}

at::Tensor GptModel::State::hidden_states(const CachedInput& input, KvCache& cache) {
  // Cheaper than NoGradGuard alone: tensors get no version counters either.
  const c10::InferenceMode inference;
  // Where each token goes is found once for all layers.
  const CachePlaces places(cache, input.sequences);
  const RotaryTables tables = rotary_of_cache(cache.capacity());
  at::Tensor states;
  if (cache.graphs() != nullptr && suits_graphs(input, places)) {
    states = cache.graphs()->run(
        number, input.tokens, places.numbers, places.longest, {tables.all.cosine, tables.all.sine},
        [&](const at::Tensor& tokens, const at::Tensor& numbers, int64_t longest) {
          return cached_pass({.tokens = tokens, .sequences = {}},
                             CacheStep(cache, numbers, longest), tables);
        });
  } else {
    states = cached_pass(input, CacheStep(cache, places, input.sequences, options.device), tables);
  }
  // Extend it after all layers: each of them writes at the same positions.
  for (const auto& [slot, count] : input.sequences) cache.extend(slot, count);
  return states;
}

GptModel::GptModel(std::unique_ptr<State> state) : state_(std::move(state)) {}

GptModel::GptModel(GptModel&&) noexcept = default;
GptModel& GptModel::operator=(GptModel&&) noexcept = default;
GptModel::~GptModel() = default;

Result<GptModel> GptModel::create(const model::GptConfig& config, const GptOptions& options,
                                  const ModelPart& part) {
  // Check before anything is allocated: what is wrong with a command line should be reported at
  // once, not after minutes of drawing weights.
  MEG_RETURN_IF_ERROR(options.check(config));
  if (part.sizes.tensor_model_parallel_size != part.tensor_parallel.size()) {
    return make_error(StatusCode::kInvalidArgument,
                      "tensor_model_parallel_size: expected {}, the size of the group, found {}",
                      part.tensor_parallel.size(), part.sizes.tensor_model_parallel_size);
  }
  if (config.num_query_groups % part.tensor_parallel.size() != 0) {
    return make_error(StatusCode::kUnsupported,
                      "num_query_groups: expected a multiple of {} tensor-parallel ranks, found {}",
                      part.tensor_parallel.size(), config.num_query_groups);
  }
  const int64_t sharing = part.sizes.expert_model_parallel_size * part.sizes.expert_tensor_size();
  if (config.num_experts.has_value() && sharing != part.expert_parallel.size()) {
    return make_error(StatusCode::kInvalidArgument,
                      "expert_model_parallel_size x expert_tensor_parallel_size: expected {}, the "
                      "size of the group, found {}",
                      part.expert_parallel.size(), sharing);
  }
  // Each rank would add it once; Megatron refuses it as well.
  if (config.num_experts.has_value() && config.add_bias_linear &&
      part.sizes.expert_tensor_size() > 1) {
    return make_error(StatusCode::kUnsupported,
                      "add_bias_linear: expected expert_tensor_parallel_size 1 with biases of "
                      "experts, found {}",
                      part.sizes.expert_tensor_size());
  }
  if (config.qk_layernorm_across_heads && part.tensor_parallel.size() > 1) {
    return make_error(StatusCode::kUnsupported,
                      "qk_layernorm_across_heads: expected 1 tensor-parallel rank, found {}",
                      part.tensor_parallel.size());
  }
  // Load it for a CPU, too: LibTorch decides permanently whether it has CUDA when it is first
  // asked.
  const Status& gpu = libtorch::load_cuda_backend();
  if (options.device.is_cuda()) MEG_RETURN_IF_ERROR(gpu);
  MEG_ASSIGN_OR_RETURN(ParameterStore store, ParameterStore::create(config, options, part));
  MEG_ASSIGN_OR_RETURN(RandomStates random,
                       RandomStates::create(options.device, options.seed, part.tensor_rank));
  MEG_ASSIGN_OR_RETURN(const model::PipelineLayout layout,
                       model::PipelineLayout::create(config.num_layers, part.sizes));
  std::unique_ptr<State> state;
  MEG_RETURN_IF_ERROR(libtorch::torch_guard([&] {
    state =
        std::make_unique<State>(config, options, part, layout, std::move(store), std::move(random));
    return Status();
  }));
  return GptModel(std::move(state));
}

const model::GptConfig& GptModel::config() const { return state_->config; }

const GptOptions& GptModel::options() const { return state_->options; }

const ModelPart& GptModel::part() const { return state_->part; }

std::span<const GptParameter> GptModel::parameters() const { return state_->store.all(); }

std::span<const ExpertBias> GptModel::expert_biases() const {
  return state_->store.expert_biases();
}

int64_t GptModel::parameter_count() const {
  int64_t count = 0;
  for (const GptParameter& parameter : parameters()) count += parameter.tensor.numel();
  return count;
}

void GptModel::set_training(bool training) { state_->training = training; }

RandomStates& GptModel::random_states() { return state_->random; }

void GptModel::share_random_states(const RandomStates& states) { state_->random = states; }

void GptModel::before_use(std::function<void(size_t end)> told) {
  state_->before_use = std::move(told);
}

AuxiliaryLosses& GptModel::auxiliary_losses() { return state_->auxiliary_losses; }

Result<at::Tensor> GptModel::hidden_states(const GptInput& input) {
  MEG_RETURN_IF_ERROR(check_input(state_->rules(), input));
  return guarded([&] { return state_->hidden_states(input); });
}

Result<at::Tensor> GptModel::hidden_states(const CachedInput& input, KvCache& cache) {
  MEG_RETURN_IF_ERROR(check_input(state_->rules(), input, cache));
  return guarded([&] { return state_->hidden_states(input, cache); });
}

Result<at::Tensor> GptModel::logits(const GptInput& input) {
  MEG_RETURN_IF_ERROR(state_->check_last(input));
  return guarded([&] { return state_->logits(state_->part_of_logits(input)); });
}

Result<at::Tensor> GptModel::logits_of(const at::Tensor& hidden_rows, int64_t vocab_size) {
  MEG_RETURN_IF_ERROR(state_->check_last());
  MEG_RETURN_IF_ERROR(check_hidden_rows(state_->rules(), hidden_rows));
  return guarded([&] {
    at::Tensor logits = state_->logits(state_->part_of_logits_of(hidden_rows));
    // A sum is finite if all terms are (logits that add up to 3e38 are no model's), and on CPUs and
    // GPUs it is the quickest reduction. Marked here in two operations, without a wait of the host,
    // each row takes the finding along wherever its result is used. 0 times a finite sum is 0.
    const at::Tensor sums = logits.narrow(1, 0, vocab_size).sum(1);
    logits.select(1, 0).add_(sums, /*alpha=*/0);
    return logits;
  });
}

Status not_finite_logits() {
  return {StatusCode::kCorruption,
          "expected finite logits, found NaN or infinity: the model's weights or activations are "
          "not finite"};
}

Result<at::Tensor> GptModel::loss(const GptInput& input, const at::Tensor& labels) {
  MEG_RETURN_IF_ERROR(state_->check_labels(input, labels));
  return guarded([&] {
    const TensorParallel& ranks = state_->part.tensor_parallel;
    const at::Tensor logits = state_->part_of_logits(input);
    if (ranks.size() == 1) return cross_entropy(logits, labels, state_->label_error);
    // Each rank has a part of the vocabulary and cannot distinguish a label of another part from a
    // bad one, so the whole range is checked here.
    note_bad_labels(labels, logits.size(-1) * ranks.size(), state_->label_error);
    return vocab_parallel_cross_entropy(logits, labels, {}, ranks).losses;
  });
}

Result<at::Tensor> GptModel::loss_and_gradients(const GptInput& input, const at::Tensor& labels,
                                                const at::Tensor& grad_losses) {
  MEG_RETURN_IF_ERROR(state_->check_labels(input, labels));
  MEG_RETURN_IF_ERROR(check_grad_losses(labels, grad_losses));
  return guarded([&] {
    const TensorParallel& ranks = state_->part.tensor_parallel;
    const at::Tensor logits = state_->part_of_logits(input);
    if (ranks.size() > 1) {
      note_bad_labels(labels, logits.size(-1) * ranks.size(), state_->label_error);
    }
    LossesAndGradient found =
        ranks.size() == 1
            ? cross_entropy_with_gradient(logits, labels, grad_losses, state_->label_error)
            : vocab_parallel_cross_entropy(logits, labels, grad_losses, ranks);
    // Start from the logits, whose gradient the kernel has made in place of them: the loss itself
    // is no node of the graph.
    torch::autograd::backward({logits}, {std::move(found.grad_logits)});
    return found.losses;
  });
}

const at::Tensor& GptModel::label_error() const { return state_->label_error; }

}  // namespace meg::nn
