#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string_view>

#include "libmeg/base/result.h"
#include "libmeg/model/gpt_config.h"
#include "libmeg/model/parameter_count.h"
#include "libmeg/model/theoretical_memory.h"
#include "libmeg/nn/expert_parallel.h"
#include "libmeg/nn/moe_options.h"
#include "libmeg/nn/tensor_parallel.h"

namespace meg::nn {

/// The activation between the two matrices of an MLP without SwiGLU.
enum class GeluForm : uint8_t {
  kTanh,  ///< Megatron's bias-gelu fusion, its default.
  kErf,   ///< --no-bias-gelu-fusion
};

/// --attention-backend.
enum class AttentionBackend : uint8_t {
  kAuto,     ///< LibTorch's scaled-dot-product attention chooses (attention_kernels).
  kFlash,    ///< FlashAttention (16-bit on GPUs, no mask); on CPUs like kAuto.
  kFused,    ///< cuDNN's attention in training (16-bit on GPUs); otherwise like kAuto.
  kUnfused,  ///< Matrix products and a separate softmax.
  kLocal,    ///< The same as kUnfused here.
};

using meg::model::RecomputeGranularity;

/// --recompute-method, of full granularity.
enum class RecomputeMethod : uint8_t {
  kUniform,  ///< Keeps one input for every recompute_num_layers layers.
  kBlock,    ///< Recomputes only the first recompute_num_layers layers.
};

/// How a GPT model computes; GptConfig describes its structure. Names are those of Megatron's args.
struct GptOptions {
  at::ScalarType params_dtype = at::kFloat;  ///< kFloat, kHalf or kBFloat16.
  at::Device device = at::kCPU;
  double hidden_dropout = 0.1;     ///< After the embedding, the attention and the MLP; 0 to < 1.
  double attention_dropout = 0.1;  ///< Applied to attention probabilities; 0 to < 1.
  double layernorm_epsilon = 1e-5;
  GeluForm gelu = GeluForm::kTanh;
  bool squared_relu = false;  ///< relu(x)^2 between the two matrices of an MLP, in place of GELU.
  bool quick_geglu = false;   ///< x * sigmoid(1.702 x) as the gate of gated_linear_unit.
  bool geglu = false;         ///< GELU as the gate of gated_linear_unit.
  /// Norms store their weights minus 1, so that 0 is their initial value and the one towards which
  /// weight decay would pull them.
  bool apply_layernorm_1p = false;
  /// Keeps hidden states in fp32 from the embedding to the final norm. With fp32 parameters they
  /// always are.
  bool fp32_residual_connection = false;
  AttentionBackend attention_backend = AttentionBackend::kAuto;
  /// Whether kUnfused computes the softmax of 16-bit scores in fp32. The other backends always do.
  bool attention_softmax_in_fp32 = false;
  /// Divides scores by the layer's number (from 1), which the fp32 softmax then multiplies back, to
  /// keep fp16 scores in range. It changes no value otherwise. Only kUnfused does it, because the
  /// others compute scores in fp32. Revisions up to 6ef5bdc have it on by default, core off.
  bool apply_query_key_layer_scaling = false;
  model::RecomputeGranularity recompute_granularity = model::RecomputeGranularity::kNone;
  RecomputeMethod recompute_method = RecomputeMethod::kUniform;
  int64_t recompute_num_layers = 1;
  double rotary_base = 10000;
  double rotary_percent = 1.0;      ///< Share of a head's elements that are rotated; > 0 to 1.
  bool rotary_interleaved = false;  ///< Rotates pairs of adjacent elements instead of two halves.
  double rotary_seq_len_interpolation_factor = 1;  ///< Positions are divided by it; > 0.
  bool use_rope_scaling = false;                   ///< Scales rotary frequencies as Llama 3.1 does.
  double rope_scaling_factor = 8;                  ///< Divisor of the lowest frequencies; > 0.
  MoeOptions moe;                                  ///< Of a model with experts.
  std::optional<double> rotary_base_local;  ///< The base in layers with a window, unscaled; > 0.
  /// x + attention(norm(x)) + mlp(norm(x)) instead of one after the other.
  bool parallel_residual = false;
  double embedding_multiplier = 1;  ///< Factor of word embeddings; > 0.
  double residual_multiplier = 1;   ///< Factor of what attention and MLP add; > 0.
  double logits_scaling = 1;        ///< Divisor of logits; > 0.
  /// Factor of attention scores; > 0. nullopt: 1 / sqrt(kv_channels).
  std::optional<double> softmax_scale;
  /// Bounds scores, and logits, as c tanh(x / c); > 0. nullopt: unbounded.
  std::optional<double> attn_logit_softcapping, final_logit_softcapping;
  double init_method_std = 0.02;
  /// Initialises matrices uniformly within sqrt(6 / (rows + columns)) instead of normally.
  bool init_method_xavier_uniform = false;
  uint64_t seed = 1234;  ///< Seed of dropout; see RandomStates.
  /// The family whose named_parameters() order parameters() follows.
  model::NameFamily family = model::NameFamily::kMcoreLocal;

  /// Reads the options by Megatron's field names (flags of a command line, args of a checkpoint).
  /// Fields that are missing or None get the defaults above; the caller sets device and family.
  /// Other fields of the model request features that no module has: the argument table refuses them
  /// on command lines, and check_architecture in checkpoints.
  static Result<GptOptions> from_fields(const megatron::FieldLookup& lookup);

  /// kInvalidArgument, with the option's name, if a number is out of range or options contradict
  /// each other; kUnsupported if the configuration requires a feature that no module has.
  Status check(const model::GptConfig& config) const;

  /// Whether attention_dropout is a multiple of 1/16. Some of cuDNN's kernels round it to one.
  bool drops_in_sixteenths() const;

  /// The dtype of hidden states between layers.
  at::ScalarType residual_dtype() const {
    return fp32_residual_connection ? at::kFloat : params_dtype;
  }
};

/// The part of a model that this process holds; by default all of it.
struct ModelPart {
  model::ParallelSizes sizes;
  int64_t tensor_rank = 0;
  int64_t pipeline_rank = 0;
  int64_t chunk = 0;  ///< The virtual pipeline stage.
  /// The ranks that share this part, as many as `sizes` says.
  TensorParallel tensor_parallel = {};
  /// The ranks that share its experts, as many as `sizes` says.
  ExpertParallel expert_parallel = {};

  /// This rank's number among those that split a parameter. is_expert: whether it is an expert's.
  int64_t tensor_rank_of(bool is_expert) const {
    return is_expert ? expert_parallel.tensor_rank() : tensor_rank;
  }
};

/// "auto", "flash", "fused", "unfused", "local".
Result<AttentionBackend> attention_backend_from_name(std::string_view name);

}  // namespace meg::nn
