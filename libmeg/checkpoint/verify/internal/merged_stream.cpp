#include "libmeg/checkpoint/verify/internal/merged_stream.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "libmeg/checkpoint/transfer/merged_reader.h"
#include "libmeg/io/crc32.h"

namespace meg::checkpoint {
namespace {

/// Bytes that are read of a shard at once where its runs are shorter.
constexpr int64_t kBufferBytes = int64_t{1} << 17;

/// Whether pieces are equal parts of one axis, with elements in the order of the axes.
bool is_cut_evenly(const LogicalParameter& parameter, const LogicalTensor& tensor) {
  const model::ShardAxes& axes = parameter.axes;
  for (size_t i = 0; i < tensor.pieces.size(); ++i) {
    const Piece& piece = tensor.pieces[i];
    const Box expected = Box::shard(axes.sizes, axes.partition_axis, static_cast<int64_t>(i),
                                    std::ssize(tensor.pieces));
    if (piece.box != expected || piece.source->elements() != expected.elements() ||
        !std::is_sorted(piece.memory_order.begin(), piece.memory_order.end())) {
      return false;
    }
  }
  return true;
}

}  // namespace

/// Shards that are cut evenly on one axis interleave in runs of equal length: the merged tensor is
/// dealt out to cursors in turn, each of which reads its shard front to back and so sums its CRC in
/// passing. Anything else (run_ == 0) is read through read_merged(), without these sums.
MergedStream::MergedStream(const LogicalParameter& parameter, const LogicalTensor& tensor)
    : parameter_(parameter), tensor_(tensor), element_(dtype_size(tensor.dtype)) {
  const model::ShardAxes& axes = parameter.axes;
  if (!is_cut_evenly(parameter, tensor)) return;
  for (const Piece& piece : tensor.pieces) {
    Cursor cursor;
    cursor.source = piece.source.get();
    cursor.bytes = piece.source->bytes();
    cursors_.push_back(std::move(cursor));
  }
  const auto pieces = static_cast<int64_t>(tensor.pieces.size());
  run_ = element_;
  for (size_t i = static_cast<size_t>(std::max(axes.partition_axis, 0)); i < axes.sizes.size();
       ++i) {
    run_ *= axes.sizes[i];
  }
  run_ = std::max<int64_t>(run_ / pieces, 1);
}

Status MergedStream::read(std::span<std::byte> into) {
  if (run_ == 0) {
    Status status = read_merged(parameter_, tensor_, position_ / element_, into);
    position_ += static_cast<int64_t>(into.size());
    return status;
  }
  while (!into.empty()) {
    const auto shard = static_cast<size_t>(position_ / run_) % cursors_.size();
    const auto left = static_cast<size_t>(run_ - position_ % run_);
    const size_t taken = std::min(left, into.size());
    MEG_RETURN_IF_ERROR(cursors_[shard].read(into.first(taken)));
    position_ += static_cast<int64_t>(taken);
    into = into.subspan(taken);
  }
  return Status();
}

Status MergedStream::Cursor::fetch(std::span<std::byte> into) {
  MEG_RETURN_IF_ERROR(source->read(next / dtype_size(source->dtype()), into));
  crc = io::crc32(into, crc);
  next += static_cast<int64_t>(into.size());
  return Status();
}

Status MergedStream::Cursor::read(std::span<std::byte> into) {
  while (!into.empty()) {
    if (ready.empty()) {
      if (static_cast<int64_t>(into.size()) >= kBufferBytes) return fetch(into);
      buffer.resize(static_cast<size_t>(std::min(kBufferBytes, bytes - next)));
      MEG_RETURN_IF_ERROR(fetch(buffer));
      ready = buffer;
    }
    const size_t taken = std::min(ready.size(), into.size());
    std::memcpy(into.data(), ready.data(), taken);
    ready = ready.subspan(taken);
    into = into.subspan(taken);
  }
  return Status();
}

Result<std::vector<StorageSum>> MergedStream::finish() {
  std::vector<StorageSum> sums;
  for (Cursor& cursor : cursors_) {
    // Bytes that were not read (dropped padding rows) still belong to the recorded CRC.
    cursor.buffer.resize(static_cast<size_t>(kBufferBytes));
    while (cursor.next < cursor.bytes) {
      const int64_t size = std::min(kBufferBytes, cursor.bytes - cursor.next);
      MEG_RETURN_IF_ERROR(cursor.fetch(std::span(cursor.buffer).first(static_cast<size_t>(size))));
    }
    std::optional<RecordedCrc> recorded = cursor.source->recorded_crc();
    const std::optional<FileExtent> extent = cursor.source->file_extent();
    if (recorded.has_value() && extent.has_value() && recorded->extent == *extent) {
      sums.push_back({*std::move(recorded), cursor.crc});
    }
  }
  return sums;
}

}  // namespace meg::checkpoint
