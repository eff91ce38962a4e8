#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/model/gpt_config.h"
#include "libmeg/model/parameter_count.h"

namespace meg::model {

/// Families of parameter names in Hugging Face's models.
enum class HuggingFaceFamily : uint8_t {
  kGpt2,        ///< transformer.h.N.attn.c_attn ...
  kGptNeox,     ///< gpt_neox.layers.N.attention.query_key_value ...
  kFalcon,      ///< transformer.h.N.self_attention.query_key_value, ln_attn, ln_mlp ...
  kLlama,       ///< model.layers.N.self_attn.q_proj ...; Mistral, Qwen, Granite and more.
  kStarcoder2,  ///< Llama's, with MLPs mlp.c_fc, mlp.c_proj.
  kPhi3,        ///< Llama's, with self_attn.qkv_proj and mlp.gate_up_proj.
  kPostNorm,    ///< Llama's, with post_attention_layernorm and post_feedforward_layernorm of what
                ///< attention and MLP put out: OLMo 2 and 3, Gemma 2 and 3.
  kMixtral,     ///< Llama's, with MLPs block_sparse_moe.experts.K.w1 ...
  kQwenMoe,     ///< Llama's, its MLPs mlp.experts.K.gate_proj, mlp.shared_expert.gate_proj ...
};

/// A box of the axes of a merged parameter: [offsets[i], offsets[i] + sizes[i]) of axis i.
struct AxesBox {
  std::vector<int64_t> offsets, sizes;
};

/// A tensor of a Hugging Face model, and the elements of a merged parameter that it holds.
struct HuggingFaceTensor {
  std::string name;
  std::string parameter;       ///< Megatron's, canonical, with the layer's number.
  std::vector<int64_t> shape;  ///< In the Hugging Face file.
  bool is_transposed =
      false;                  ///< The file has [input, output]; what follows is of [output, input].
  std::vector<int64_t> axes;  ///< Sizes of the merged parameter's axes; row-major, it is these.
  /// What the tensor holds of these, each box row-major, one after another.
  std::vector<AxesBox> boxes;
};

/// The tensor that is the whole parameter of this canonical name; empty if the family has none.
std::string hugging_face_name(HuggingFaceFamily family, std::string_view canonical);

/// All tensors of a model without padding rows (config.padded_vocab_size is its vocabulary), in the
/// order of model_parameters() layer after layer. kUnsupported, with the parameter's name, if the
/// family has no name for one.
Result<std::vector<HuggingFaceTensor>> hugging_face_tensors(HuggingFaceFamily family,
                                                            const GptConfig& config);

}  // namespace meg::model
