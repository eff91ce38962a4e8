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

/// What transformers' classes take where config.json lacks a key.
struct KeyDefault {
  ArchitectureSet architectures = 0;
  std::string_view key;
  megatron::FieldValue value;
  bool takes_null = false;  ///< Whether null, as None, is a value of the key.
};

/// nullptr for keys that config.json must have, or that the class does not read.
const KeyDefault* default_of(ArchitectureSet architecture, std::string_view key);

/// A key of config.json and Megatron's field for the same value.
struct ConfigRow {
  ArchitectureSet architectures;
  std::string_view key;
  std::string_view field;
  std::string_view other_key = {};  ///< A second name of the key (attribute_map); empty: none.
  bool is_real = false;             ///< A number; otherwise a size.
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
  megatron::FieldValue value;
  bool is_of_class = true;  ///< Whether transformers' configuration class has the key itself.
};

const std::vector<FixedKey>& fixed_keys();

/// Whether a key changes no number that the model computes; a folder that is written again keeps
/// it.
bool is_neutral_key(std::string_view key);

}  // namespace meg::checkpoint
