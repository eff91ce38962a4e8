#include "libmeg/checkpoint/transfer/merged_reader.h"

#include <memory>
#include <vector>

#include "libmeg/checkpoint/transfer/internal/transfer_copier.h"
#include "libmeg/checkpoint/transfer/internal/transfer_work.h"

namespace meg::checkpoint {
Status read_merged(const LogicalParameter& parameter, const LogicalTensor& tensor, int64_t first,
                   std::span<std::byte> into) {
  TensorTransfer transfer;
  transfer.name = parameter.name;
  transfer.axes = parameter.axes.sizes;
  transfer.source_extent = transfer.axes[0];
  transfer.target_dtype = tensor.dtype;
  transfer.sources = tensor.pieces;
  const auto count = static_cast<int64_t>(into.size()) / dtype_size(tensor.dtype);
  transfer.targets.push_back({.sink = 0,
                              .box = Box::whole(transfer.axes),
                              .range = TransferTarget::FlatRange{first, count}});
  std::vector<std::unique_ptr<TensorSink>> sinks;
  sinks.push_back(memory_sink(into));
  MEG_ASSIGN_OR_RETURN(
      const PreparedTransfers prepared,
      prepare_transfers(std::span(&transfer, 1), sinks, kTransferChunkBytes, false));
  TransferCopier copier(kTransferChunkBytes, [](int64_t) { return true; });
  for (const auto& work : prepared.works) {
    MEG_RETURN_IF_ERROR(copier.run({work.get(), 0, work->elements()}));
  }
  return Status();
}

}  // namespace meg::checkpoint
