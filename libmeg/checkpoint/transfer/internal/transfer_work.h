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

/// Bytes that are read at once where memory allows it: a chunk and its copy fit the L2 cache.
inline constexpr int64_t kTransferChunkBytes = int64_t{512} << 10;

/// The CRC-32 of bytes that several works read or write, part by part.
class TransferCrc {
 public:
  explicit TransferCrc(uint64_t bytes) : bytes_(bytes) {}

  /// The CRC-32 of the whole where these parts are the last ones; then and only then.
  std::optional<uint32_t> add(const CrcParts& parts);

 private:
  uint64_t bytes_;
  std::mutex mutex_;
  CrcParts parts_;
};

/// Rows [begin, end) of one axis of a box, at one place of every axis outside of it and with all of
/// the axes inside. Of each box that it cuts it takes one run.
struct Slab {
  std::vector<int64_t> outer;  ///< The places; their number is the axis.
  int64_t begin = 0, end = 0;

  size_t axis() const { return outer.size(); }
};

/// A TensorTransfer made ready to run: a box of axes that contains all sources and targets. Axes
/// that nobody cuts are one with their neighbours. Positions are elements of that box in row-major
/// order.
struct TransferWork {
  /// Bytes with a recorded CRC-32.
  struct Recorded {
    RecordedCrc recorded;
    std::string name;  ///< Of a tensor in them.
    TransferCrc found;

    Recorded(RecordedCrc crc, std::string tensor);

    /// kCorruption where these are the last parts and what was found differs from what is recorded.
    Status add(const CrcParts& parts);
  };

  /// What is told a sink when its last byte is written.
  struct Filled {
    TensorSink* sink = nullptr;
    TransferCrc crc;

    explicit Filled(TensorSink* to) : sink(to), crc(to->bytes()) {}

    void add(const CrcParts& parts);
  };

  struct Source {
    TransferReader reader;
    Box box;
    Recorded* recorded = nullptr;  ///< Where this is read to check a CRC in passing.
    uint64_t recorded_offset = 0;  ///< Of its first byte in the recorded bytes.
  };

  struct Target {
    TensorSink* sink = nullptr;
    Filled* filled = nullptr;  ///< nullptr where the sink wants no CRC.
    Box box;
    uint64_t offset = 0;  ///< Of its first byte in the sink.
  };

  /// What a thread found out while it ran a part of this work.
  struct Parts {
    std::vector<CrcParts> sources, targets;
  };

  std::string name;
  std::vector<int64_t> axes;
  DType source_dtype = DType::kUint8, target_dtype = DType::kUint8;
  std::vector<Source> sources;
  std::vector<Target> targets;
  int64_t last_row = 0;    ///< Elements of a row of the transfer's first axis.
  int64_t fill_begin = 0;  ///< Position from which on nothing has a source.
  PaddingFill fill = PaddingFill::kZero;
  size_t slab_axis = 0;   ///< Of the slabs that are copied at once.
  int64_t slab_rows = 1;  ///< So many rows of it at most.

  int64_t elements() const { return row_elements(0) * axes[0]; }

  /// Elements of one row of an axis: the product of the axes inside of it.
  int64_t row_elements(size_t axis) const;

  int64_t source_size() const { return dtype_size(source_dtype); }

  int64_t target_size() const { return dtype_size(target_dtype); }

  /// The slab that begins at a position, which begins a row of slab_axis: as far as the same boxes
  /// have it all, at most max_rows.
  Slab slab_at(int64_t position, int64_t max_rows) const;

  Parts no_parts() const {
    return {std::vector<CrcParts>(sources.size()), std::vector<CrcParts>(targets.size())};
  }

  /// Adds what a finished job found; the errors of Recorded::add.
  Status add(const Parts& parts);
};

/// The run that a slab takes of a box that holds all of its rows: elements of the box in row-major
/// order. nullopt where the box holds none of them.
struct SlabRun {
  int64_t first = 0, count = 0;
};

std::optional<SlabRun> run_in(const Box& box, const Slab& slab);

/// Transfers made ready to run, with the checks that they share.
struct PreparedTransfers {
  std::vector<std::unique_ptr<TransferWork>> works;
  std::vector<std::unique_ptr<TransferWork::Recorded>> recorded;
  std::vector<std::unique_ptr<TransferWork::Filled>> filled;
};

/// Makes ready every transfer, to be run by copiers of these chunk_bytes, and, where check_crcs
/// asks for it, the reading of those recorded bytes that no transfers read wholly and once.
/// kInternal: check_transfers(). The sinks outlive what is returned.
Result<PreparedTransfers> prepare_transfers(std::span<const TensorTransfer> transfers,
                                            std::span<const std::unique_ptr<TensorSink>> sinks,
                                            int64_t chunk_bytes, bool check_crcs);

}  // namespace meg::checkpoint
