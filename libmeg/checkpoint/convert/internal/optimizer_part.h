#pragma once

#include <cstdint>
#include <vector>

#include "libmeg/checkpoint/convert/internal/target_layout.h"

namespace meg::checkpoint {

/// The parameters of a rank that one optimizer updates: expert-parallel ranks have one optimizer
/// for the parameters that they share and one for their own experts.
struct OptimizerPart {
  bool has_shared = true, has_experts = true;
  int64_t first_expert = 0, last_expert = INT64_MAX;  ///< last_expert is exclusive.

  /// Whether it updates the experts of one expert-parallel rank and nothing else.
  bool is_of_experts() const { return !has_shared; }

  bool has(const TargetEntry& entry) const {
    if (entry.parameter == nullptr || entry.parameter->is_buffer) return false;
    if (!entry.expert.has_value()) return has_shared;
    return has_experts && first_expert <= *entry.expert && *entry.expert < last_expert;
  }
};

/// The optimizers of a rank: one, or two if there are several expert-parallel ranks, that of the
/// experts last.
inline std::vector<OptimizerPart> optimizer_parts(const TargetLayout& layout, int64_t expert_rank) {
  if (layout.experts_per_rank == 0 || layout.ranks.expert_size() == 1) return {{}};
  const int64_t first = expert_rank * layout.experts_per_rank;
  return {
      {.has_experts = false},
      {.has_shared = false, .first_expert = first, .last_expert = first + layout.experts_per_rank}};
}

}  // namespace meg::checkpoint
