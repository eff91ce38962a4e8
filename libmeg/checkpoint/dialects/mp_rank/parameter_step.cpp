#include "libmeg/checkpoint/dialects/mp_rank/parameter_step.h"

#include <array>
#include <bit>

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
  if (const auto* found = dynamic_cast<const TorchValue*>(&value)) {
    const TorchFile& file = *found->file();
    if (const auto number = file.graph().as_int(found->node())) return *number;
    if (const TensorView* view = file.tensor(found->node())) {
      MEG_ASSIGN_OR_RETURN(const std::optional<float> step, read_one_float(file, *view));
      if (step.has_value()) return static_cast<int64_t>(*step);
    }
  }
  return make_error(StatusCode::kCorruption, "{}: optimizer: step: expected a number, found {}",
                    value.origin(), value.describe(60));
}

}  // namespace meg::checkpoint
