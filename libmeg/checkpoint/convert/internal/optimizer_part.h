#pragma once

#include <cstdint>
#include <vector>

#include "libmeg/checkpoint/convert/internal/target_layout.h"

namespace meg::checkpoint {

/// Which of a rank's parameters an optimizer is for: expert-parallel ranks have one for what they
/// hold alike and one for their own experts.
struct OptimizerPart {
  bool has_shared = true, has_experts = true;
  int64_t first_expert = 0, last_expert = INT64_MAX;  ///< The latter: behind the last.

  /// Those of one expert-parallel rank alone.
  bool is_of_experts() const { return !has_shared; }

  bool has(const TargetEntry& entry) const {
    if (entry.parameter == nullptr || entry.parameter->is_buffer) return false;
    if (!entry.expert.has_value()) return has_shared;
    return has_experts && first_expert <= *entry.expert && *entry.expert < last_expert;
  }
};

/// The optimizers of a rank: one, or of one of several expert-parallel ranks two, that of experts
/// last.
inline std::vector<OptimizerPart> optimizer_parts(const TargetLayout& layout, int64_t expert_rank) {
  if (layout.experts_per_rank == 0 || layout.expert_model_parallel_size == 1) return {{}};
  const int64_t first = expert_rank * layout.experts_per_rank;
  return {
      {.has_experts = false},
      {.has_shared = false, .first_expert = first, .last_expert = first + layout.experts_per_rank}};
}

}  // namespace meg::checkpoint
