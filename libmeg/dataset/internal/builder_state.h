#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>

#include "libmeg/dataset/index_format.h"
#include "libmeg/dataset/indexed_dataset_builder.h"
#include "libmeg/io/atomic_file.h"
#include "libmeg/io/file_lock.h"
#include "libmeg/io/piece_writer.h"

namespace meg::dataset {

/// Suffixes of files that another process can resume, after their final names.
inline constexpr const char* kResumeSuffix = ".resume";
inline constexpr const char* kLengthsSuffix = ".lengths.resume";
inline constexpr const char* kDocumentsSuffix = ".documents.resume";

int64_t sum(std::span<const int32_t> values);

/// The first negative value's place, or values.size().
size_t find_negative(std::span<const int32_t> values);

/// The state of a builder: its files, and their contents so far.
struct IndexedDatasetBuilder::State {
  State(const Options& chosen, io::FileLock held, io::AtomicFile bin_file, io::AtomicFile idx_file,
        io::AtomicFile lengths_file, io::AtomicFile documents_file, io::AtomicFile modes_file)
      : options(chosen),
        item_size(dtype_size(chosen.dtype)),
        lock(std::move(held)),
        bin(std::move(bin_file)),
        idx(std::move(idx_file)),
        lengths_spool(std::move(lengths_file)),
        documents_spool(std::move(documents_file)),
        modes_spool(std::move(modes_file)) {}

  Options options;
  int64_t item_size;

  io::FileLock lock;  // Goes last.
  io::AtomicFile bin;
  io::AtomicFile idx;  // MMIDIDX: lengths arrive at their final place; the rest in finish().
  io::AtomicFile lengths_spool;    // TNTIDX: lengths wait here until S is known.
  io::AtomicFile documents_spool;  // Document indices and modes wait here until S is known.
  io::AtomicFile modes_spool;

  io::PieceWriter items{bin, 0};
  io::PieceWriter lengths{stored_lengths(), lengths_begin()};
  io::PieceWriter documents{documents_spool, 0};
  io::PieceWriter modes{modes_spool, 0};

  int64_t sequence_count = 0;
  int64_t document_count = 0;
  int64_t document_end = 0;  // Sequences in documents that have ended.
  int64_t item_count = 0;
  std::atomic<int64_t> bin_size = 0;               // Bytes of all items taken note of.
  mutable std::atomic<int64_t> reserved_done = 0;  // Bytes that write_at has written.
  int64_t reserved = 0;                            // Bytes that write_at has to write.

  bool is_tntidx() const { return options.format == IndexFormat::kTntidx; }

  /// Where the lengths, as int32, are until finish(): the file, and their first byte.
  const io::AtomicFile& stored_lengths() const { return is_tntidx() ? lengths_spool : idx; }

  int64_t lengths_begin() const { return is_tntidx() ? 0 : kIndexHeaderSize; }

  bool document_is_open() const { return document_end != sequence_count; }

  Status add_sequences(std::span<const int32_t> sequence_lengths);
  Status add_modes(std::span<const int8_t> sequence_modes);
  Status end_document(int64_t end);
  Status add_state(const State& other, const std::function<bool()>& keep_going);
  uint8_t dtype_code() const;
  Status write_pointers(io::PieceWriter& out) const;
  Status write_index();
  Status write_tntidx();
  Status check_whole() const;
  Status check_reserved(int64_t offset, int64_t count) const;
  Status flush();
  Status check_mark(const Mark& mark) const;
  Status resume(const Mark& mark);
  Status complete();
};

}  // namespace meg::dataset
