#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "libmeg/checkpoint/dialects/huggingface/huggingface_config.h"
#include "libmeg/megatron/field_value.h"

namespace meg::checkpoint {

inline constexpr ArchitectureSet kGpt2 = 1, kLlama = 2, kMistral = 4, kQwen2 = 8, kQwen3 = 16,
                                 kMixtral = 32, kQwen3Moe = 64, kQwen2Moe = 128;
inline constexpr ArchitectureSet kQwenExpertArchitectures = kQwen2Moe | kQwen3Moe;
inline constexpr ArchitectureSet kExpertArchitectures = kMixtral | kQwenExpertArchitectures;
inline constexpr ArchitectureSet kRotaryArchitectures =
    kLlama | kMistral | kQwen2 | kQwen3 | kExpertArchitectures;

/// If several describe a model, the first one is written.
std::span<const HuggingFaceArchitecture> hugging_face_architectures();

/// A key of config.json and Megatron's field for the same value.
struct ConfigRow {
  ArchitectureSet architectures;
  std::string_view key;
  std::string_view field;
  /// The value that transformers assumes for a missing key; None: the value that Megatron assumes
  /// for a missing field. nullopt: the key must be there.
  std::optional<megatron::FieldValue> missing;
};

const std::vector<ConfigRow>& config_rows();

/// A field of Megatron's whose value depends on the architecture alone.
struct DecidedField {
  std::string_view field;
  megatron::FieldValue otherwise;  ///< Megatron's default and the value of all other architectures.
  ArchitectureSet architectures;   ///< The architectures that have `value`.
  megatron::FieldValue value;
};

const std::vector<DecidedField>& decided_fields();

/// Whether the architecture decides the field; fields of experts are decided only by architectures
/// with experts.
bool is_decided_for(const DecidedField& field, ArchitectureSet architecture);

/// A key of config.json that may only have the value that Megatron's models imply.
struct FixedKey {
  ArchitectureSet architectures;
  std::string_view key;
  megatron::FieldValue value;  ///< Also the meaning of a missing key.
};

const std::vector<FixedKey>& fixed_keys();

/// Whether a key changes no number that the model computes.
bool is_neutral_key(std::string_view key);

}  // namespace meg::checkpoint
