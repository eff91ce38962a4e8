#include "libmeg/checkpoint/convert/copy_list.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

// Plain copies are transfers of one piece to one target: they share threads, buffers and memory
// bounds with everything else.

namespace meg::checkpoint {

Status run_copies(std::span<const TensorCopy> copies,
                  std::span<const std::unique_ptr<TensorSink>> sinks,
                  const TransferOptions& options) {
  std::vector<TensorTransfer> transfers;
  for (size_t i = 0; i < copies.size(); ++i) {
    const Box whole = Box::whole({copies[i].source->elements()});
    TensorTransfer transfer;
    transfer.name = fmt::format("tensor {}", i);
    transfer.axes = whole.sizes;
    transfer.source_extent = whole.sizes[0];
    transfer.target_dtype = copies[i].target_dtype;
    transfer.sources.push_back({.source = copies[i].source, .box = whole});
    transfer.targets.push_back({.sink = static_cast<int>(i), .box = whole});
    transfers.push_back(std::move(transfer));
  }
  return run_transfers(transfers, sinks, options);
}

}  // namespace meg::checkpoint
