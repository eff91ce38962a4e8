#include "libmeg/checkpoint/verify/internal/node_text.h"

#include "libmeg/checkpoint/verify/internal/float_scan.h"

namespace meg::checkpoint {
namespace {

/// Longer values are compared by their beginnings.
constexpr size_t kLongestText = size_t{1} << 16;

}  // namespace

std::optional<double> node_number(const TorchFile& file, PickleId id) {
  const TensorView* tensor = file.tensor(id);
  if (tensor == nullptr) return file.graph().as_number(id);
  if (tensor->numel() != 1 || !is_scannable(tensor->dtype)) return std::nullopt;
  std::vector<std::byte> element(static_cast<size_t>(dtype_size(tensor->dtype)));
  if (!file.read_elements(*tensor, 0, element).ok()) return std::nullopt;
  return widened_element(tensor->dtype, element.data());
}

std::string node_text(const TorchFile& file, PickleId id) {
  const TensorView* tensor = file.tensor(id);
  if (tensor == nullptr) return file.graph().describe(id, kLongestText);
  if (tensor->numel() != 1) return "a tensor of shape " + shape_text(tensor->shape);
  std::vector<std::byte> element(static_cast<size_t>(dtype_size(tensor->dtype)));
  const Status status = file.read_elements(*tensor, 0, element);
  return status.ok() ? element_text(tensor->dtype, element.data()) : status.message();
}

}  // namespace meg::checkpoint
