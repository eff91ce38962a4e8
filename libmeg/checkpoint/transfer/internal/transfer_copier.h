#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "libmeg/checkpoint/transfer/internal/transfer_work.h"

namespace meg::checkpoint {

/// The part of a TransferWork that one thread runs: elements [begin, end) of its box.
struct TransferJob {
  TransferWork* work = nullptr;
  int64_t begin = 0, end = 0;
};

/// Splits `work` into jobs of up to about job_bytes, where possible each with the same targets.
void split_work(TransferWork& work, int64_t job_bytes, std::vector<TransferJob>* jobs);

/// Runs jobs for one thread, in buffers of its own, slab by slab: reads the run that each source
/// has of a slab with one call, and writes the run that each target takes of it with one call,
/// directly as read if one source has exactly that run, and otherwise after assembling it in
/// memory. Every byte is thus read once and written once per target, and CRCs are computed on the
/// way.
class TransferCopier {
 public:
  /// Size of all buffers of a copier, for chunks of chunk_bytes.
  static int64_t buffer_bytes(int64_t chunk_bytes) { return 5 * chunk_bytes; }

  /// progress: called after every slab with the bytes written to targets; returns false to stop.
  TransferCopier(int64_t chunk_bytes, std::function<bool(int64_t)> progress);

  /// kCancelled if progress returned false.
  Status run(const TransferJob& job);

 private:
  /// The run of a slab that a source has, in the target's dtype.
  struct Chunk {
    const Box* box = nullptr;     ///< Box of the source.
    std::span<std::byte> bytes;   ///< Undefined if is_hole.
    bool is_hole = false;         ///< It is all zeros.
    std::optional<uint32_t> crc;  ///< CRC of bytes, if it was needed already.
  };

  /// The run of a slab that a target takes.
  struct Taken {
    size_t target = 0;
    SlabRun run;
  };

  bool begin_slab(const TransferWork& work, const Slab& slab, int64_t position);
  bool is_needed(const TransferWork& work, const TransferWork::Source& source, size_t axis) const;
  Status copy_slab(const TransferWork& work, const Slab& slab, int64_t position);
  Status read_sources(const TransferWork& work, const Slab& slab);
  Status fill(const TransferWork& work, int64_t position, int64_t count);
  std::span<std::byte> room_for(const TransferWork& work, const Box& source, int64_t count);
  Result<std::span<const std::byte>> load(const TransferWork& work, size_t source, int64_t first,
                                          int64_t count, std::span<std::byte> into);
  Result<Chunk> read(const TransferWork& work, size_t source, SlabRun run,
                     std::span<std::byte> into);
  Status gather(const TransferWork& work, int64_t position, std::span<std::byte> into);
  Status write_taken(const TransferWork& work, const Slab& slab, const Taken& taken);
  Chunk assemble(const TransferWork& work, const Slab& slab, const Taken& taken);
  Status write(const TransferWork& work, const Taken& taken, Chunk* chunk);
  Status report();

  int64_t chunk_bytes_;
  std::function<bool(int64_t)> progress_;
  int64_t written_ = 0;  // Bytes not told yet.
  TransferWork::Parts parts_;
  std::vector<std::byte> raw_, chunk_, gathered_, scratch_;
  // State of the slab that is being copied.
  Box whole_;
  size_t used_ = 0;  // bytes of chunk_
  std::vector<Taken> taken_;
  std::vector<Chunk> chunks_;
};

}  // namespace meg::checkpoint
