#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/checkpoint/container/torch_file/torch_file.h"

namespace meg::checkpoint {

/// A tensor, or a numpy array, under the keys that lead to it.
struct NamedTensor {
  std::string name;   ///< Keys and indices joined by '/': "optimizer/state/0/exp_avg".
  std::string dtype;  ///< torch's name; "numpy:uint32" and the like for arrays.
  std::vector<int64_t> shape;
  int64_t elements = 0;
  int64_t bytes = 0;                 ///< Size of its elements.
  const TensorView* view = nullptr;  ///< nullptr: an array, whose bytes lie in the pickle.
};

struct NamedTensors {
  std::vector<NamedTensor> tensors;  ///< In the file's order.
  /// Whether more paths lead to tensors than are listed, because shared parts multiply in a file
  /// made to exhaust readers.
  bool is_cut = false;
};

/// Every tensor and array of a file by name; one that several paths lead to is listed once for
/// each. A cycle is followed once. Names are Python's str of the keys: torch.float32, (0, 1).
/// The file must outlive the result.
NamedTensors named_tensors(const TorchFile& file);

/// A dict's key as it is written in names.
std::string key_text(const PickleGraph& graph, PickleId key);

}  // namespace meg::checkpoint
