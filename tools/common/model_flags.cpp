#include "tools/common/model_flags.h"

#include <functional>
#include <map>
#include <string_view>

namespace meg::tools {
namespace {

constexpr int64_t kMostSize = int64_t{1} << 30;

}  // namespace

void declare_model_flags(Flags& flags, ModelFlags& model) {
  flags.group("Model");
  const auto size = [&](const char* name, std::optional<int64_t>* target, const char* help) {
    flags.value(name, target, "N", help).range(1, kMostSize);
  };
  size("--num-layers", &model.num_layers, "transformer layers");
  size("--hidden-size", &model.hidden_size, "numbers of a token between layers");
  size("--num-attention-heads", &model.num_attention_heads, "heads of a layer");
  size("--ffn-hidden-size", &model.ffn_hidden_size,
       "numbers inside an MLP; else 4 x hidden size, 8/3 x with --swiglu");
  size("--kv-channels", &model.kv_channels, "numbers of a head; else hidden size / heads");
  flags.toggle("--group-query-attention", &model.group_query_attention,
               "heads share keys and values");
  size("--num-query-groups", &model.num_query_groups, "groups that share them");
  size("--max-position-embeddings", &model.max_position_embeddings,
       "longest sequence; else the sequence length");
  size("--make-vocab-size-divisible-by", &model.make_vocab_size_divisible_by,
       "the vocabulary is padded to a multiple of this x tensor-parallel size; else 128");
  flags.toggle("--swiglu", &model.swiglu, "gated MLPs");
  flags.value("--normalization", &model.normalization, "NORM", "else LayerNorm")
      .choices({"LayerNorm", "RMSNorm"});
  flags
      .value("--position-embedding-type", &model.position_embedding_type, "TYPE",
             "else learned_absolute")
      .choices({"learned_absolute", "rope", "none"});
  flags.toggle("--use-rotary-position-embeddings", &model.use_rotary_position_embeddings,
               "--position-embedding-type rope");
  flags.toggle("--disable-bias-linear", &model.disable_bias_linear, "no biases");
  flags.toggle("--add-qkv-bias", &model.add_qkv_bias, "but those of query, key and value");
  flags.toggle("--qk-layernorm", &model.qk_layernorm, "norms over the heads of query and key");
  flags.toggle("--untie-embeddings-and-output-weights", &model.untie_embeddings_and_output_weights,
               "an output layer of its own");
}

FieldLookup model_fields(const ModelFlags& model) {
  return [&model](std::string_view name) -> std::optional<FieldValue> {
    using Field = std::function<std::optional<FieldValue>(const ModelFlags&)>;
    const auto of = [](auto member) -> Field {
      return [member](const ModelFlags& flags) -> std::optional<FieldValue> {
        const auto& value = flags.*member;
        return value.has_value() ? std::optional<FieldValue>(*value) : std::nullopt;
      };
    };
    const auto flag = [](bool ModelFlags::*member) -> Field {
      return [member](const ModelFlags& flags) { return FieldValue(flags.*member); };
    };
    static const std::map<std::string_view, Field> fields = {
        {"num_layers", of(&ModelFlags::num_layers)},
        {"hidden_size", of(&ModelFlags::hidden_size)},
        {"ffn_hidden_size", of(&ModelFlags::ffn_hidden_size)},
        {"num_attention_heads", of(&ModelFlags::num_attention_heads)},
        {"kv_channels", of(&ModelFlags::kv_channels)},
        {"num_query_groups", of(&ModelFlags::num_query_groups)},
        {"max_position_embeddings", of(&ModelFlags::max_position_embeddings)},
        {"make_vocab_size_divisible_by", of(&ModelFlags::make_vocab_size_divisible_by)},
        {"group_query_attention", flag(&ModelFlags::group_query_attention)},
        {"swiglu", flag(&ModelFlags::swiglu)},
        {"add_qkv_bias", flag(&ModelFlags::add_qkv_bias)},
        {"qk_layernorm", flag(&ModelFlags::qk_layernorm)},
        {"untie_embeddings_and_output_weights",
         flag(&ModelFlags::untie_embeddings_and_output_weights)},
        {"use_rotary_position_embeddings", flag(&ModelFlags::use_rotary_position_embeddings)},
        {"position_embedding_type", of(&ModelFlags::position_embedding_type)},
        {"normalization", of(&ModelFlags::normalization)},
        {"add_bias_linear",
         [](const ModelFlags& flags) { return FieldValue(!flags.disable_bias_linear); }},
    };
    const auto found = fields.find(name);
    return found == fields.end() ? std::nullopt : found->second(model);
  };
}

}  // namespace meg::tools
