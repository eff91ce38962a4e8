#include "libmeg/checkpoint/convert/internal/model_layers.h"

#include "libmeg/model/expert_names.h"

namespace meg::checkpoint {

std::set<int64_t> layers_of(const MegatronCheckpoint& checkpoint) {
  std::set<int64_t> found;
  for (const LogicalParameter& parameter : checkpoint.parameters()) {
    if (parameter.layer.has_value()) found.insert(*parameter.layer);
  }
  return found;
}

std::set<int64_t> layers_with_experts(const MegatronCheckpoint& checkpoint) {
  std::set<int64_t> found;
  for (const LogicalParameter& parameter : checkpoint.parameters()) {
    const bool is_expert = model::parse_expert_name(parameter.canonical).has_value();
    if (is_expert) found.insert(parameter.layer.value_or(0));
  }
  return found;
}

}  // namespace meg::checkpoint
