#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "libmeg/checkpoint/transfer/internal/transfer_work.h"

namespace meg::checkpoint {

/// A part of a work that one thread runs: elements [begin, end) of its box.
struct TransferJob {
  TransferWork* work = nullptr;
  int64_t begin = 0, end = 0;
};

/// Splits a work into jobs of up to about job_bytes, each to the same targets where a chunk of them
/// can be, to be run by copiers of these chunk_bytes.
void split_work(TransferWork& work, int64_t job_bytes, int64_t chunk_bytes,
                std::vector<TransferJob>* jobs);

/// Runs jobs in buffers of its own, one thread's. A job is copied in one of two ways:
/// - long runs: chunk by chunk, from the one source that has it to every target that takes it;
/// - short runs (column cuts): for as many rows as fit, every source's part is read at once and
///   every target's part is put together in memory and written at once.
/// Either way bytes are read once and written once a target, and CRCs are taken in passing.
class TransferCopier {
 public:
  /// Bytes that all buffers of a copier hold, for chunks of chunk_bytes.
  static int64_t buffer_bytes(int64_t chunk_bytes) { return 5 * chunk_bytes; }

  /// goes_on: called after every chunk with the bytes that it brought to targets; false: stop.
  TransferCopier(int64_t chunk_bytes, std::function<bool(int64_t)> goes_on);

  /// kCancelled where goes_on said so.
  Status run(const TransferJob& job);

 private:
  /// Elements on their way, and what is known about them.
  struct Chunk {
    std::span<const std::byte> bytes;  ///< In the target's type.
    bool is_hole = false;              ///< They are zero; bytes is empty.
    std::optional<uint32_t> crc;       ///< Of bytes, where it was needed already.
  };

  Status run_rows(const TransferJob& job, int64_t rows_at_once);
  Status run_stretches(const TransferJob& job);
  Result<int64_t> copy_stretch(const TransferWork& work, int64_t position, int64_t limit);
  Status copy_rows(const TransferWork& work, int64_t first_row, int64_t rows);
  Result<std::span<const std::byte>> load(const TransferWork& work, size_t source, int64_t first,
                                          int64_t count, std::span<std::byte> into);
  Result<Chunk> read(const TransferWork& work, size_t source, int64_t first, int64_t count,
                     std::span<std::byte> into);
  Result<Chunk> repeat_last_row(const TransferWork& work, int64_t position,
                                std::span<std::byte> into);
  Status write(const TransferWork& work, size_t target, int64_t first, int64_t count, Chunk* chunk);
  Status go_on();

  int64_t chunk_bytes_;
  std::function<bool(int64_t)> goes_on_;
  int64_t written_ = 0;  // Bytes not told yet.
  TransferWork::Parts parts_;
  std::vector<std::byte> raw_, chunk_, gathered_, scratch_;
};

}  // namespace meg::checkpoint
