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

/// Whether the architecture decides the field: those of experts are decided by theirs alone.
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
