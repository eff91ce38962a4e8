#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/cleaning/duplicates/spilling_array.h"
#include "libmeg/io/atomic_file.h"
#include "libmeg/io/file_descriptor.h"

namespace meg::cleaning {

/// Writes the distinct shingles of documents, in ascending order, one document after another, to a
/// file beside the others.
class ShingleWriter {
 public:
  /// A temporary file, unless the caller commits it.
  static Result<ShingleWriter> create(const std::string& path);

  Status add(std::span<const uint64_t> shingles);

  /// Completes the file.
  Result<io::AtomicFile*> finish();

  /// Of what finish() has completed.
  Result<size_t> read_at(int64_t offset, std::span<std::byte> into) const {
    return file_.read_at(offset, into);
  }

 private:
  explicit ShingleWriter(io::AtomicFile file) : file_(std::move(file)) {}

  io::AtomicFile file_;
  std::vector<uint64_t> buffer_;
};

/// The distinct shingles of numbered documents, in files: how much two documents have in common.
/// 8 bytes a document.
class ShingleSets {
 public:
  /// Always in memory.
  ShingleSets() = default;

  /// path, bytes: of a SpillingArray.
  ShingleSets(const std::string& path, size_t bytes) : ends_(path, bytes) {}

  /// Reads bytes of a file at an offset.
  using Read = std::function<Result<size_t>(int64_t, std::span<std::byte>)>;

  /// The next file; its documents are added after this.
  void add_file(Read read);

  /// In ascending order; documents that are left out have none.
  Status add(int64_t document, uint64_t shingles);

  /// Of all files so far.
  uint64_t shingles() const { return ends_.size() == 0 ? 0 : ends_[ends_.size() - 1]; }

  /// How many shingles a document has.
  uint64_t size(uint32_t document) const { return end_of(document) - begin_of(document); }

  /// How many shingles two documents have in common.
  Result<uint64_t> common(uint32_t a, uint32_t b) const;

  /// Whether two documents have this part or more of their shingles in common: |A and B| / |A or
  /// B|, as doubles.
  Result<bool> are_similar(uint32_t a, uint32_t b, double least) const;

 private:
  class Cursor;

  struct File {
    uint64_t first;  // shingle
    Read read;
  };

  Cursor cursor(uint32_t document) const;
  uint64_t begin_of(uint32_t document) const;
  uint64_t end_of(uint32_t document) const;

  std::vector<File> files_;
  SpillingArray<uint64_t> ends_;  // of each document, in all files
};

}  // namespace meg::cleaning
