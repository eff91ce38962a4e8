#include "libmeg/preprocess/sources/internal/text_reader.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "libmeg/text/line_ends.h"
#include "libmeg/text/text_padding.h"
#include "libmeg/tokenizer/interface/tokenizer.h"

// Two ways to chunks. FileCutter cuts a file that is read at offsets: it reads only around each
// cut, so that threads read their own ranges side by side. StreamReader reads what comes from begin
// to end, with a scanner that finds the documents; what is left after the last whole one is
// carried into the next chunk.

namespace meg::preprocess {
namespace {

/// Bytes read at a time around a cut: a few typical lines.
constexpr int64_t kWindowBytes = int64_t{32} << 10;

std::span<std::byte> as_bytes(char* begin, size_t count) {
  return {reinterpret_cast<std::byte*>(begin), count};
}

// The size is taken at the time of the error: it may have changed again.
Status became_shorter(const InputFile& file, int64_t expected) {
  MEG_ASSIGN_OR_RETURN(const auto found, file.extent());
  return make_error(StatusCode::kIoError,
                    "{}: expected {} bytes, found {}: the file was truncated while it was read",
                    file.name(), expected, found.value_or(ByteRange()).end);
}

}  // namespace

Result<ByteRange> FileCutter::next() {
  if (rest_.begin == rest_.end) return rest_;
  MEG_ASSIGN_OR_RETURN(const int64_t end, find_end());
  const ByteRange cut{rest_.begin, end};
  rest_.begin = end;
  return cut;
}

Result<int64_t> FileCutter::first_line_from(int64_t offset) {
  // Look from the byte before: where an end of line stands there, `offset` is the begin of a line
  // itself.
  if (offset <= rest_.begin) return rest_.begin;
  return find_first_end_after(offset - 1);
}

Result<int64_t> FileCutter::find_end() {
  // What remains is one chunk, whose last line may lack its end.
  if (rest_.end - rest_.begin <= chunk_bytes_) return rest_.end;
  const int64_t limit = rest_.begin + chunk_bytes_;
  // A chunk has as many whole lines as fit. If the first is longer than a chunk, it is a chunk of
  // its own.
  MEG_ASSIGN_OR_RETURN(const int64_t last, find_last_end_before(limit));
  if (last > rest_.begin) return last;
  return find_first_end_after(limit - 1);  // Its last byte may be the CR of a CRLF.
}

/// The end of the last line that ends in [rest_.begin, limit); rest_.begin where none does.
Result<int64_t> FileCutter::find_last_end_before(int64_t limit) {
  for (int64_t high = limit; high > rest_.begin;) {
    const int64_t low = std::max(rest_.begin, high - kWindowBytes);
    MEG_ASSIGN_OR_RETURN(const std::string_view text, window(low, high));
    // Below the first window the next byte is known: it is not an LF, which would have been found.
    const size_t end = text::last_line_end(text, high < limit);
    if (end != text::kNoLineEnd) return low + static_cast<int64_t>(end);
    high = low;
  }
  return rest_.begin;
}

Result<int64_t> FileCutter::find_first_end_after(int64_t start) {
  for (int64_t low = start; low < rest_.end;) {
    const int64_t high = std::min(rest_.end, low + kWindowBytes);
    MEG_ASSIGN_OR_RETURN(const std::string_view text, window(low, high));
    const size_t end = text::first_line_end(text, high == rest_.end);
    if (end != text::kNoLineEnd) return low + static_cast<int64_t>(end);
    // A CR at the end of a window may be half a CRLF: it is looked at again with the next byte.
    low = high < rest_.end && text.ends_with('\r') ? high - 1 : high;
  }
  return rest_.end;
}

Result<std::string_view> FileCutter::window(int64_t begin, int64_t end) {
  window_.resize(static_cast<size_t>(kWindowBytes));
  const auto bytes = static_cast<size_t>(end - begin);
  MEG_ASSIGN_OR_RETURN(const size_t got, file_.read_at(begin, as_bytes(window_.data(), bytes)));
  if (got < bytes) return became_shorter(file_, rest_.end);
  return std::string_view(window_.data(), bytes);
}

Status read_range(const InputFile& file, ByteRange range, size_t chunk_bytes, TextChunk& chunk) {
  const auto bytes = static_cast<size_t>(range.end - range.begin);
  MEG_RETURN_IF_ERROR(prepare_chunk(chunk, bytes, chunk_bytes).with_prefix(file.name()));
  MEG_ASSIGN_OR_RETURN(const size_t got,
                       file.read_at(range.begin, as_bytes(chunk.buffer.get(), bytes)));
  if (got < bytes) return became_shorter(file, range.end);
  finish_chunk(chunk, bytes);
  chunk.offset = range.begin;
  chunk.end = range.end;
  return Status();
}

Status StreamReader::next(TextChunk& chunk) {
  MEG_RETURN_IF_ERROR(error_);
  MEG_RETURN_IF_ERROR(
      prepare_chunk(chunk, std::max(chunk_bytes_, carry_.size()), chunk_bytes_).with_prefix(name_));
  // The carried bytes come first; a buffer that is no smaller than chunk_bytes keeps the number of
  // reads low.
  std::memcpy(chunk.buffer.get(), carry_.data(), carry_.size());
  size_t used = carry_.size();
  if (used < chunk_bytes_) read_more(chunk, used, chunk_bytes_ - used);
  scan(chunk, used);
  MEG_RETURN_IF_ERROR(read_to_document_end(chunk, used));
  // Whole documents before the error are given first. The error comes with the next call.
  if (scanner_->end() == 0) MEG_RETURN_IF_ERROR(error_);
  finish(chunk, used);
  return Status();
}

Status StreamReader::rest(TextChunk& chunk) {
  MEG_RETURN_IF_ERROR(prepare_chunk(chunk, chunk_bytes_, chunk_bytes_).with_prefix(name_));
  size_t used = 0;
  while (!is_end_ && error_.ok()) {
    MEG_RETURN_IF_ERROR(make_room(chunk, used));
    read_more(chunk, used, chunk_bytes_);
  }
  scan(chunk, used);
  finish(chunk, used);
  chunk.error = error_;
  return Status();
}

/// Makes the documents in the `used` bytes of its buffer the chunk's.
void StreamReader::finish(TextChunk& chunk, size_t used) {
  const std::string_view text(chunk.buffer.get(), used);
  const size_t end = scanner_->end();
  scanner_->take(text, chunk);
  carry_.assign(text, end);
  finish_chunk(chunk, end);
  chunk.offset = offset_;
  offset_ += static_cast<int64_t>(end);
  chunk.end = offset_;
}

/// Makes room for at least another chunk_bytes_.
Status StreamReader::make_room(TextChunk& chunk, size_t used) const {
  if (chunk.capacity >= used + chunk_bytes_ + text::kTextPadding) return Status();
  // Doubling keeps the cost of a long document linear.
  return grow_chunk(chunk, std::max(2 * used, used + chunk_bytes_)).with_prefix(name_);
}

/// Appends up to `count` bytes to the `used` bytes in the chunk's buffer. An error waits until the
/// documents before it are given, so that it does not depend on chunks which errors come first.
void StreamReader::read_more(TextChunk& chunk, size_t& used, size_t count) {
  for (const size_t wanted = used + count; used < wanted && !is_end_ && error_.ok();) {
    const Result<size_t> got = stream_->read(as_bytes(chunk.buffer.get() + used, wanted - used));
    error_ = got.status();
    if (!got.has_value()) return;
    is_end_ = *got == 0;
    used += *got;
  }
}

/// Finds the documents in the `used` bytes. Its error is in front of the stream's.
void StreamReader::scan(const TextChunk& chunk, size_t used) {
  const std::string_view text(chunk.buffer.get(), used);
  const Status begun = check_(text);
  const Status scanned = begun.ok() ? scanner_->scan(text, is_end_).with_prefix(name_) : begun;
  if (!scanned.ok()) error_ = scanned;
}

/// Reads on until a document has ended.
Status StreamReader::read_to_document_end(TextChunk& chunk, size_t& used) {
  while (!is_end_ && error_.ok() && scanner_->end() == 0) {
    MEG_RETURN_IF_ERROR(make_room(chunk, used));
    read_more(chunk, used, chunk_bytes_);
    scan(chunk, used);
  }
  return Status();
}

}  // namespace meg::preprocess
