#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "libmeg/base/result.h"
#include "libmeg/io/byte_stream.h"
#include "libmeg/preprocess/sources/internal/input_file.h"
#include "libmeg/preprocess/sources/internal/record_scanner.h"
#include "libmeg/preprocess/sources/internal/text_chunk.h"

namespace meg::preprocess {

/// Cuts a file into runs of whole lines, reading only around the cuts.
class FileCutter {
 public:
  /// file must outlive the cutter. whole: the part of the file to cut.
  FileCutter(const InputFile& file, ByteRange whole, size_t chunk_bytes)
      : file_(file), rest_(whole), chunk_bytes_(static_cast<int64_t>(chunk_bytes)) {}

  /// The next run; empty at the end.
  Result<ByteRange> next();

  /// The beginning of the first line that begins at or after `offset`; the end of the whole part if
  /// none does.
  Result<int64_t> first_line_from(int64_t offset);

 private:
  Result<int64_t> find_end();
  Result<int64_t> find_last_end_before(int64_t limit);
  Result<int64_t> find_first_end_after(int64_t start);
  Result<std::string_view> window(int64_t begin, int64_t end);

  const InputFile& file_;
  ByteRange rest_;
  int64_t chunk_bytes_;
  std::string window_;
};

/// Reads `range` of file into chunk.lines.
Status read_range(const InputFile& file, ByteRange range, size_t chunk_bytes, TextChunk& chunk);

/// Reads runs of whole documents from what can only be read once: pipes, decompressed files, and
/// files whose documents are found from begin to end.
class StreamReader {
 public:
  /// Returns what is wrong with a text with this beginning, before any error of its documents.
  using Check = std::function<Status(std::string_view)>;

  /// offset: the stream's position in the input's content. name: the input's, for errors.
  StreamReader(std::unique_ptr<io::ByteStream> stream, int64_t offset, Check check,
               std::unique_ptr<RecordScanner> scanner, std::string name, size_t chunk_bytes)
      : stream_(std::move(stream)),
        check_(std::move(check)),
        scanner_(std::move(scanner)),
        name_(std::move(name)),
        chunk_bytes_(chunk_bytes),
        offset_(offset) {}

  /// Fills the chunk except for number and input; its text is empty at the end.
  Status next(TextChunk& chunk);

  /// The same with all documents that are left, whatever they need. What ended them early is the
  /// chunk's `error`.
  Status rest(TextChunk& chunk);

 private:
  void finish(TextChunk& chunk, size_t used);
  Status make_room(TextChunk& chunk, size_t used) const;
  void read_more(TextChunk& chunk, size_t& used, size_t count);
  void scan(const TextChunk& chunk, size_t used);
  Status read_to_document_end(TextChunk& chunk, size_t& used);

  std::unique_ptr<io::ByteStream> stream_;
  Check check_;
  std::unique_ptr<RecordScanner> scanner_;
  std::string name_;
  size_t chunk_bytes_;
  int64_t offset_;
  bool is_end_ = false;
  Status error_;       // what ends the documents
  std::string carry_;  // what was read beyond the last run
};

}  // namespace meg::preprocess
