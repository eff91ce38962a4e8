#include "libmeg/checkpoint/dialects/mp_rank/parameter_step.h"

#include <array>
#include <bit>
#include <cmath>

#include "libmeg/base/bytes.h"
#include "libmeg/checkpoint/container/torch_file/torch_value.h"

namespace meg::checkpoint {

Result<std::optional<float>> read_one_float(const TorchFile& file, const TensorView& tensor) {
  if (tensor.dtype != DType::kFloat32 || tensor.numel() != 1) return std::optional<float>();
  std::array<std::byte, sizeof(float)> bytes = {};
  MEG_RETURN_IF_ERROR(file.check_crc(tensor.storage));
  MEG_RETURN_IF_ERROR(file.read_elements(tensor, 0, bytes));
  return std::optional(std::bit_cast<float>(load_le<uint32_t>(bytes.data())));
}

Result<int64_t> parameter_step(const Opaque& value) {
  std::optional<double> step;
  if (const auto* found = dynamic_cast<const TorchValue*>(&value)) {
    const TorchFile& file = *found->file();
    if (const auto number = file.graph().as_int(found->node())) return *number;
    step = file.graph().as_number(found->node());
    if (const TensorView* view = file.tensor(found->node())) {
      MEG_ASSIGN_OR_RETURN(step, read_one_float(file, *view));
    }
  }
  constexpr double kFirstInexact = 9007199254740992;  // 2^53
  if (step.has_value() && std::abs(*step) < kFirstInexact && *step == std::floor(*step)) {
    return static_cast<int64_t>(*step);
  }
  return make_error(StatusCode::kCorruption,
                    "{}: optimizer: step: expected a whole number, found {}", value.origin(),
                    value.describe(60));
}

const Opaque* step_of_parameters(const MegatronCheckpoint& checkpoint) {
  for (const LogicalParameter& parameter : checkpoint.parameters()) {
    for (const auto& [key, value] : parameter.other_state) {
      if (key == kStepKey) return value.get();
    }
  }
  return nullptr;
}

Result<std::optional<PickleId>> add_group_step(const MegatronCheckpoint& checkpoint,
                                               PickleGraph* graph) {
  const Opaque* step = step_of_parameters(checkpoint);
  if (step == nullptr) return std::optional<PickleId>();
  MEG_ASSIGN_OR_RETURN(const int64_t number, parameter_step(*step));
  // Megatron's distributed optimizer without Apex writes a float there, which is how a reader knows
  // the step of torch's Adam from the int of Apex and Transformer Engine.
  return std::optional(graph->add_float(static_cast<double>(number)));
}

}  // namespace meg::checkpoint
