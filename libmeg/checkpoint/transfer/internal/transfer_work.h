#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "libmeg/checkpoint/state/tensor_sink.h"
#include "libmeg/checkpoint/transfer/internal/crc_parts.h"
#include "libmeg/checkpoint/transfer/internal/transfer_reader.h"
#include "libmeg/checkpoint/transfer/tensor_transfer.h"

namespace meg::checkpoint {

/// Bytes that are read at once if memory allows: a chunk and its copy fit the L2 cache.
inline constexpr int64_t kTransferChunkBytes = int64_t{512} << 10;

/// Computes the CRC-32 of bytes that several TransferWorks read or write, part by part.
class TransferCrc {
 public:
  explicit TransferCrc(uint64_t bytes) : bytes_(bytes) {}

  /// Adds parts. Returns the CRC-32 of the whole if these were the last parts, otherwise nullopt.
  std::optional<uint32_t> add(const CrcParts& parts);

 private:
  uint64_t bytes_;
  std::mutex mutex_;
  CrcParts parts_;
};

/// Rows [begin, end) of one axis of a box, at one place of every axis outside it and with all of
/// the axes inside it. Its intersection with any other box is one run.
struct Slab {
  std::vector<int64_t>
      outer;  ///< The places on the outer axes; their number is the index of the axis.
  int64_t begin = 0, end = 0;

  size_t axis() const { return outer.size(); }
};

/// A TensorTransfer prepared for running: a box of axes that contains all sources and targets. Axes
/// that are never divided are merged with their neighbours. Positions count elements of that box in
/// row-major order.
struct TransferWork {
  /// Bytes with a recorded CRC-32.
  struct Recorded {
    RecordedCrc recorded;
    std::string name;  ///< Name of a tensor in them.
    TransferCrc found;

    Recorded(RecordedCrc crc, std::string tensor);

    /// Adds parts. kCorruption if these were the last parts and the CRC differs from the recorded
    /// one.
    Status add(const CrcParts& parts);
  };

  /// Computes the CRC that a sink is given when its last byte is written.
  struct Filled {
    TensorSink* sink = nullptr;
    TransferCrc crc;

    explicit Filled(TensorSink* to) : sink(to), crc(to->bytes()) {}

    void add(const CrcParts& parts);
  };

  struct Source {
    TransferReader reader;
    Box box;
    Recorded* recorded = nullptr;  ///< Set if this is read only to check a CRC.
    uint64_t recorded_offset = 0;  ///< Offset of its first byte in the recorded bytes.
  };

  struct Target {
    TensorSink* sink = nullptr;
    Filled* filled = nullptr;  ///< nullptr if the sink wants no CRC.
    Box box;
    uint64_t offset = 0;  ///< Offset of its first byte in the sink.
  };

  /// The CRCs that a thread computed while it ran a part of this work.
  struct Parts {
    std::vector<CrcParts> sources, targets;
  };

  std::string name;
  std::vector<int64_t> axes;
  DType source_dtype = DType::kUint8, target_dtype = DType::kUint8;
  std::vector<Source> sources;
  std::vector<Target> targets;
  int64_t last_row = 0;    ///< Elements in a row of the transfer's first axis.
  int64_t fill_begin = 0;  ///< First position that has no source.
  PaddingFill fill = PaddingFill::kZero;
  size_t slab_axis = 0;   ///< Axis of the slabs that are copied at once.
  int64_t slab_rows = 1;  ///< Maximum rows of it in a slab.

  int64_t elements() const { return row_elements(0) * axes[0]; }

  /// Elements in one row of an axis: the product of the axes inside it.
  int64_t row_elements(size_t axis) const;

  int64_t source_size() const { return dtype_size(source_dtype); }

  int64_t target_size() const { return dtype_size(target_dtype); }

  /// The slab that begins at a position, which must be the beginning of a row of slab_axis. It
  /// extends as far as the same boxes contain all of it, at most max_rows.
  Slab slab_at(int64_t position, int64_t max_rows) const;

  Parts no_parts() const {
    return {std::vector<CrcParts>(sources.size()), std::vector<CrcParts>(targets.size())};
  }

  /// Adds the CRCs of a finished job; errors are those of Recorded::add.
  Status add(const Parts& parts);
};

/// The run that a slab takes of a box that contains all of its rows, in elements of the box in
/// row-major order; nullopt if the box contains none of them.
struct SlabRun {
  int64_t first = 0, count = 0;
};

std::optional<SlabRun> run_in(const Box& box, const Slab& slab);

/// Transfers prepared for running, with the checks that they share.
struct PreparedTransfers {
  std::vector<std::unique_ptr<TransferWork>> works;
  std::vector<std::unique_ptr<TransferWork::Recorded>> recorded;
  std::vector<std::unique_ptr<TransferWork::Filled>> filled;
};

/// Prepares every transfer for copiers with these chunk_bytes, and, with check_crcs, also reads of
/// the bytes with a recorded CRC that transfers do not read completely and exactly once. kInternal:
/// from check_transfers(). The sinks must outlive the result.
Result<PreparedTransfers> prepare_transfers(std::span<const TensorTransfer> transfers,
                                            std::span<const std::unique_ptr<TensorSink>> sinks,
                                            int64_t chunk_bytes, bool check_crcs);

}  // namespace meg::checkpoint
