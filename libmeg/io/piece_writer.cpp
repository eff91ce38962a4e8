#include "libmeg/io/piece_writer.h"

#include <algorithm>

namespace meg::io {
namespace {

/// Bytes that are collected before a write; larger appends go straight to the file.
constexpr size_t kPieceBytes = size_t{1} << 20;

}  // namespace

Status PieceWriter::append(std::span<const std::byte> bytes) {
  if (piece_.size() + bytes.size() > kPieceBytes) MEG_RETURN_IF_ERROR(flush());
  // Straight from the caller's memory: through the piece they would be copied first.
  if (bytes.size() >= kPieceBytes) return write(bytes);
  piece_.insert(piece_.end(), bytes.begin(), bytes.end());
  return Status();
}

Status PieceWriter::flush() {
  MEG_RETURN_IF_ERROR(write(piece_));
  piece_.clear();
  return Status();
}

Status PieceWriter::skip(int64_t count) {
  MEG_RETURN_IF_ERROR(flush());
  flushed_ += count;
  return Status();
}

Status PieceWriter::write(std::span<const std::byte> bytes) {
  MEG_RETURN_IF_ERROR(file_->write_at(flushed_, bytes));
  const int64_t before = flushed_;
  flushed_ += static_cast<int64_t>(bytes.size());
  start_writeback_if_due(*file_, before, flushed_);
  return Status();
}

void start_writeback_if_due(const AtomicFile& file, int64_t before, int64_t after) {
  const int64_t windows = after / kWritebackBytes;
  if (before / kWritebackBytes == windows) return;
  // One window further back than needed: another thread's bytes there may have come after the last
  // call.
  const int64_t begin = std::max<int64_t>(before / kWritebackBytes - 1, 0) * kWritebackBytes;
  file.start_writeback(begin, windows * kWritebackBytes - begin);
}

}  // namespace meg::io
