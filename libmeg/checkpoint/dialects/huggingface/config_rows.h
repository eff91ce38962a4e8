#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/megatron/field_value.h"
#include "libmeg/model/hugging_face_names.h"

namespace meg::checkpoint {

/// A set of architectures, one bit each.
using ArchitectureSet = uint8_t;

inline constexpr ArchitectureSet kGpt2 = 1, kLlama = 2, kMistral = 4, kQwen2 = 8, kQwen3 = 16,
                                 kMixtral = 32, kQwen3Moe = 64;
inline constexpr ArchitectureSet kExpertArchitectures = kMixtral | kQwen3Moe;
inline constexpr ArchitectureSet kRotaryArchitectures =
    kLlama | kMistral | kQwen2 | kQwen3 | kExpertArchitectures;

/// A class of transformers' that is a GPT model of Megatron's.
struct HuggingFaceArchitecture {
  ArchitectureSet bit = 0;
  std::string_view model_type;  ///< "llama"
  std::string_view class_name;  ///< "LlamaForCausalLM"
  model::HuggingFaceFamily family = model::HuggingFaceFamily::kLlama;
};

/// Where several describe a model, the first is written.
std::span<const HuggingFaceArchitecture> hugging_face_architectures();

/// A key of config.json and the field of Megatron's that has its value.
struct ConfigRow {
  ArchitectureSet architectures;
  std::string_view key;
  std::string_view field;
  /// What transformers takes for a missing key; None: what Megatron takes for a missing field.
  /// nullopt: the key must be there.
  std::optional<megatron::FieldValue> missing;
};

const std::vector<ConfigRow>& config_rows();

/// A field of Megatron's whose value the architecture decides.
struct DecidedField {
  std::string_view field;
  megatron::FieldValue otherwise;  ///< Megatron's default, and of all other architectures.
  ArchitectureSet architectures;   ///< Those that have `value`.
  megatron::FieldValue value;
};

const std::vector<DecidedField>& decided_fields();

/// Whether a decided field means something for this architecture: those of experts do for theirs.
bool is_decided_for(const DecidedField& field, ArchitectureSet architecture);

/// A key of config.json that may only say what Megatron's models do.
struct FixedKey {
  ArchitectureSet architectures;
  std::string_view key;
  megatron::FieldValue value;  ///< Also what a missing key means.
};

const std::vector<FixedKey>& fixed_keys();

/// Keys that change no number of the model.
bool is_neutral_key(std::string_view key);

}  // namespace meg::checkpoint
