#include "libmeg/checkpoint/transfer/tensor_transfer.h"

#include <algorithm>

namespace meg::checkpoint {

std::vector<int64_t> TensorTransfer::spanned_axes() const {
  std::vector<int64_t> spanned = axes;
  spanned[0] = std::max(spanned[0], source_extent);
  return spanned;
}

}  // namespace meg::checkpoint
