#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace meg::model {

/// The name of an expert's parameter, or of its `_extra_state`: mcore with its experts one after
/// another ("...mlp.experts.local_experts.3.linear_fc1.weight") or grouped ("...mlp.experts
/// .linear_fc1.weight3"). The parts before and after the number are the same for all experts.
struct ExpertName {
  std::string_view layer_name;  ///< "decoder.layers.0.mlp.experts."
  std::string_view parameter;   ///< "linear_fc1.weight"
  int64_t expert = 0;           ///< Counts from 0 on every expert-parallel rank.
  bool is_grouped = false;

  bool operator==(const ExpertName&) const = default;
};

/// Last part of the name of the state that Transformer Engine keeps for a module besides its
/// parameters.
inline constexpr std::string_view kExtraState = "_extra_state";

/// Maximum number of experts of a layer; more are refused before anything is allocated for them.
inline constexpr int64_t kMostExperts = int64_t{1} << 16;

/// Whether a canonical name is that of the norm before an MLP. Layers with experts keep it
/// separate, whereas Transformer Engine fuses it into a dense MLP.
bool is_norm_before_mlp(std::string_view canonical);

/// nullopt if it is not such a name; the result refers to `name`.
std::optional<ExpertName> parse_expert_name(std::string_view name);

/// The name in the same form for another expert.
std::string with_expert(const ExpertName& name, int64_t expert);

/// The name of the same parameter with sequential experts, which is used everywhere.
std::string sequential_expert_name(const ExpertName& name);

}  // namespace meg::model
