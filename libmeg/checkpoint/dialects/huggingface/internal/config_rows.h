#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "libmeg/checkpoint/dialects/huggingface/huggingface_config.h"
#include "libmeg/megatron/field_value.h"

namespace meg::checkpoint {

inline constexpr ArchitectureSet kGpt2 = 1, kLlama = 1 << 1, kMistral = 1 << 2, kQwen2 = 1 << 3,
                                 kQwen3 = 1 << 4, kMixtral = 1 << 5, kQwen3Moe = 1 << 6,
                                 kQwen2Moe = 1 << 7, kStarcoder2 = 1 << 8, kPhi3 = 1 << 9,
                                 kGranite = 1 << 10, kOlmo2 = 1 << 11, kOlmo3 = 1 << 12,
                                 kGptNeox = 1 << 13, kGemma = 1 << 14, kGemma2 = 1 << 15,
                                 kGemma3 = 1 << 16, kSmolLm3 = 1 << 17, kFalcon = 1 << 18;
inline constexpr ArchitectureSet kQwenExpertArchitectures = kQwen2Moe | kQwen3Moe;
inline constexpr ArchitectureSet kExpertArchitectures = kMixtral | kQwenExpertArchitectures;
inline constexpr ArchitectureSet kGemmas = kGemma | kGemma2 | kGemma3;
inline constexpr ArchitectureSet kOlmos = kOlmo2 | kOlmo3;
/// GELU between the two matrices of an MLP, and LayerNorm.
inline constexpr ArchitectureSet kGeluArchitectures = kGpt2 | kStarcoder2 | kGptNeox | kFalcon;
/// SiLU as the gate of an MLP, and RMSNorm.
inline constexpr ArchitectureSet kSiluArchitectures = kLlama | kMistral | kQwen2 | kQwen3 | kPhi3 |
                                                      kGranite | kOlmos | kSmolLm3 |
                                                      kExpertArchitectures;
inline constexpr ArchitectureSet kAllArchitectures =
    kGeluArchitectures | kSiluArchitectures | kGemmas;
inline constexpr ArchitectureSet kRotaryArchitectures = kAllArchitectures & ~kGpt2;
/// Rotary parameters by the layers' types.
inline constexpr ArchitectureSet kLayeredRotary = kOlmo3 | kGemma3;
/// Rotary embeddings of a part of each head.
inline constexpr ArchitectureSet kPartialRotary = kPhi3 | kGptNeox;
/// Classes without a key for the size of heads.
inline constexpr ArchitectureSet kDerivedHeadSize = kGpt2 | kGptNeox | kFalcon;

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
  ArchitectureSet read_by = 0;  ///< Those that have a key for it, or compute it from one.
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

/// The keys of a class for what most classes spell alike; empty: it has none.
struct ArchitectureKeys {
  std::string_view activation = {};         ///< The function between an MLP's matrices.
  std::string_view bias = {};               ///< Whether linear layers have biases.
  std::string_view dropout = {};            ///< Of what attention and MLP put out.
  std::string_view embedding_dropout = {};  ///< Of embeddings, which in Megatron is the same.
  std::string_view rotary_base = "rope_theta";
  std::string_view rotary_share = {};  ///< The share of a head that is rotated.
};

ArchitectureKeys keys_of(ArchitectureSet architecture);

/// Whether a key changes no number that the model computes; a folder that is written again keeps
/// it.
bool is_neutral_key(std::string_view key);

}  // namespace meg::checkpoint
