#include "libmeg/checkpoint/verify/internal/merged_stream.h"

#include <algorithm>
#include <cstring>

#include "libmeg/checkpoint/container/zip/internal/claimed_crc.h"
#include "libmeg/io/crc32.h"

namespace meg::checkpoint {
namespace {

/// Bytes that are read of a shard at once where its runs are shorter.
constexpr int64_t kBufferBytes = int64_t{1} << 17;

bool is_in_order(const model::ShardAxes& axes) {
  for (size_t i = 0; i < axes.memory_order.size(); ++i) {
    if (axes.memory_order[i] != static_cast<int>(i)) return false;
  }
  return true;
}

}  // namespace

MergedStream::MergedStream(const MegatronCheckpoint& checkpoint, const LogicalParameter& parameter,
                           const LogicalTensor& tensor)
    : checkpoint_(checkpoint),
      parameter_(parameter),
      tensor_(tensor),
      element_(dtype_size(tensor.dtype)) {
  const model::ShardAxes& axes = parameter.axes;
  if (!is_in_order(axes)) return;
  const bool is_cut = axes.partition_axis >= 0;
  const size_t shards = is_cut ? tensor.shards.size() : 1;
  for (size_t i = 0; i < shards; ++i) {
    const SourceTensor& shard = tensor.shards[i];
    Cursor cursor;
    cursor.file = checkpoint.files()[static_cast<size_t>(shard.file)].file.get();
    cursor.view = &shard.view;
    cursor.bytes = shard.view.bytes();
    cursors_.push_back(std::move(cursor));
  }
  if (!is_cut) {
    run_ = std::max<int64_t>(cursors_[0].bytes, 1);
    return;
  }
  run_ = element_;
  for (size_t i = static_cast<size_t>(axes.partition_axis); i < axes.sizes.size(); ++i) {
    run_ *= axes.sizes[i];
  }
  run_ = std::max<int64_t>(run_ / static_cast<int64_t>(shards), 1);
}

Status MergedStream::read(std::span<std::byte> into) {
  if (run_ == 0) {
    const Status status = read_merged(checkpoint_, parameter_, tensor_, position_ / element_, into);
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
  MEG_RETURN_IF_ERROR(file->read_elements(*view, next / dtype_size(view->dtype), into));
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
    cursor.buffer.resize(static_cast<size_t>(kBufferBytes));
    while (cursor.next < cursor.bytes) {
      const int64_t size = std::min(kBufferBytes, cursor.bytes - cursor.next);
      MEG_RETURN_IF_ERROR(cursor.fetch(std::span(cursor.buffer).first(static_cast<size_t>(size))));
    }
    if (claimed_crc(*cursor.file, *cursor.view).has_value()) {
      sums.push_back({cursor.file, cursor.view->storage, cursor.crc});
    }
  }
  return sums;
}

}  // namespace meg::checkpoint
