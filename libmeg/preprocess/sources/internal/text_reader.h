#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "libmeg/base/result.h"
#include "libmeg/io/file_descriptor.h"
#include "libmeg/preprocess/sources/internal/text_source.h"

namespace meg::preprocess {

/// Bytes [begin, end) of a file.
struct ByteRange {
  int64_t begin = 0;
  int64_t end = 0;
};

/// Cuts a regular file into runs of whole lines, reading only around the cuts.
class FileCutter {
 public:
  /// file must outlive the cutter. whole: the part of the file to cut.
  FileCutter(const io::FileDescriptor& file, ByteRange whole, size_t chunk_bytes)
      : file_(file), rest_(whole), chunk_bytes_(static_cast<int64_t>(chunk_bytes)) {}

  /// The next run; empty at the end.
  Result<ByteRange> next();

 private:
  Result<int64_t> find_end();
  Result<int64_t> find_last_end_before(int64_t limit);
  Result<int64_t> find_first_end_after(int64_t start);
  Result<std::string_view> window(int64_t begin, int64_t end);

  const io::FileDescriptor& file_;
  ByteRange rest_;
  int64_t chunk_bytes_;
  std::string window_;
};

/// Reads `range` of file into chunk.lines.
Status read_range(const io::FileDescriptor& file, ByteRange range, size_t chunk_bytes,
                  TextChunk& chunk);

/// Reads runs of whole lines from what can only be read once: pipes, terminals.
class StreamReader {
 public:
  /// Once `interrupted` is true, waiting for bytes ends with kCancelled.
  StreamReader(const io::FileDescriptor& file, size_t chunk_bytes,
               const std::atomic<bool>& interrupted)
      : file_(file), chunk_bytes_(chunk_bytes), interrupted_(interrupted) {}

  /// Fills chunk.lines and chunk.offset; the lines are empty at the end.
  Status next(TextChunk& chunk);

 private:
  Status wait_for_bytes() const;
  Status read_more(TextChunk& chunk, size_t& used, size_t count);
  Result<size_t> read_to_line_end(TextChunk& chunk, size_t& used);

  const io::FileDescriptor& file_;
  size_t chunk_bytes_;
  const std::atomic<bool>& interrupted_;
  int64_t offset_ = 0;
  bool is_end_ = false;
  std::string carry_;  // what was read beyond the last run: less than chunk_bytes_
};

}  // namespace meg::preprocess
