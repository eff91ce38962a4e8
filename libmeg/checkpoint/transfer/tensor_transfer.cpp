#include "libmeg/checkpoint/transfer/tensor_transfer.h"

namespace meg::checkpoint {

int64_t TransferPlan::source_bytes() const {
  int64_t bytes = 0;
  for (const TensorTransfer& transfer : transfers) {
    for (const TransferSource& source : transfer.sources) bytes += source.view.bytes();
  }
  return bytes;
}

int64_t TransferPlan::target_bytes() const {
  int64_t bytes = 0;
  for (const TransferTargetFile& target : targets) {
    bytes += static_cast<int64_t>(target.layout.file_size);
  }
  return bytes;
}

}  // namespace meg::checkpoint
