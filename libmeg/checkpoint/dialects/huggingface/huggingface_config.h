#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libmeg/base/dtype.h"
#include "libmeg/base/result.h"
#include "libmeg/megatron/field_value.h"
#include "libmeg/model/gpt_config.h"
#include "libmeg/model/hugging_face_names.h"

namespace meg::checkpoint {

/// A set of architectures, one bit each.
using ArchitectureSet = uint32_t;

/// A class of transformers' that is a GPT model of Megatron's.
struct HuggingFaceArchitecture {
  ArchitectureSet bit = 0;
  std::string_view model_type;  ///< "llama"
  std::string_view class_name;  ///< "LlamaForCausalLM"
  model::HuggingFaceFamily family = model::HuggingFaceFamily::kLlama;
};

/// What a config.json says of a model, in Megatron's words.
struct HuggingFaceConfig {
  HuggingFaceArchitecture architecture;
  /// Megatron's args that the model's numbers depend on, each once: what GptConfig::from_fields and
  /// the modules read.
  std::vector<std::pair<std::string, megatron::FieldValue>> fields;
  int64_t vocab_size = 0;
  std::string dtype;               ///< "bfloat16"; empty where config.json does not say it.
  std::vector<std::string> notes;  ///< One line each: keys that were not read.

  /// nullopt where there is none of this name.
  std::optional<megatron::FieldValue> field(std::string_view name) const;
};

/// Reads config.json in transformers 4's spelling (rope_theta, rope_scaling) and 5's
/// (rope_parameters). kUnsupported, by the key's name, for architectures and values that would make
/// another model than Megatron's (other masks, kinds of rotary scaling, biases ...);
/// kCorruption where it is damaged. `name`, a path, starts errors.
/// Mirrors transformers' configuration classes, their defaults among it.
Result<HuggingFaceConfig> read_huggingface_config(std::string_view json, const std::string& name);

/// Keys of config.json that no number of the model depends on, each with its value as JSON.
using KeptKeys = std::map<std::string, std::string>;

/// Those of a config.json that a model written again keeps: ids of tokens, what tokenizers go by
/// (model_type, transformers_version), and whatever else programs find there. Errors as of
/// read_huggingface_config.
Result<KeptKeys> kept_keys(std::string_view json, const std::string& name);

struct HuggingFaceConfigText {
  HuggingFaceArchitecture architecture;
  std::string json;
  /// Whether the model's norms store their weights minus 1, and the architecture's do not.
  bool adds_one_to_norms = false;
};

/// The text of a config.json, in both spellings, for a model of this shape; args: Megatron's, for
/// what config does not hold. config.padded_vocab_size: rows of the written tables. If several
/// architectures compute this model, that of model_type in `kept` is written. kUnsupported,
/// with the field's name, where no architecture of transformers' computes the same.
Result<HuggingFaceConfigText> write_huggingface_config(const model::GptConfig& config,
                                                       const megatron::FieldLookup& args,
                                                       DType dtype, const KeptKeys& kept);

}  // namespace meg::checkpoint
