#include "libmeg/checkpoint/state/logical_parameter.h"

namespace meg::checkpoint {

std::string_view param_group_text(ParamGroupKind kind) {
  switch (kind) {
    case ParamGroupKind::kDecay:
      return "with weight decay";
    case ParamGroupKind::kDecoupled:
      return "with decoupled learning rate";
    case ParamGroupKind::kNoDecay:
      return "without weight decay";
  }
  return "";
}

const LogicalTensor* LogicalParameter::tensor(std::string_view kind) const {
  for (const LogicalTensor& candidate : tensors) {
    if (candidate.kind == kind) return &candidate;
  }
  return nullptr;
}

}  // namespace meg::checkpoint
