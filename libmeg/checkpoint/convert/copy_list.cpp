#include "libmeg/checkpoint/convert/copy_list.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>
#include <utility>

#include "libmeg/base/float_convert.h"
#include "libmeg/base/thread_pool.h"
#include "libmeg/io/crc32.h"

namespace meg::checkpoint {
namespace {

constexpr int64_t kMinChunkBytes = int64_t{4} << 10;
constexpr int64_t kMaxChunkBytes = int64_t{2} << 20;

/// Buffers of one thread: what is read, what it is converted to, and what sources gather in.
constexpr int64_t kBuffersPerThread = 4;

class CopyRun {
 public:
  CopyRun(std::span<const TensorCopy> copies, std::span<const std::unique_ptr<TensorSink>> sinks,
          const CopyOptions& options)
      : copies_(copies), sinks_(sinks), options_(options) {
    for (const TensorCopy& copy : copies) total_ += static_cast<int64_t>(copy.target_bytes());
  }

  Status run() {
    const int64_t most = options_.buffer_bytes / (kBuffersPerThread * kMinChunkBytes);
    const int asked = options_.workers > 0 ? options_.workers : available_processors();
    const auto threads = static_cast<int>(std::clamp<int64_t>(most, 1, asked));
    chunk_bytes_ = std::clamp(options_.buffer_bytes / threads / kBuffersPerThread, kMinChunkBytes,
                              kMaxChunkBytes);
    {
      ThreadPool pool(threads);
      for (int i = 0; i < pool.threads(); ++i) pool.submit([this] { work(); });
      pool.wait();
    }
    return status_;
  }

 private:
  void work() {
    try {
      for (size_t i = next_++; i < copies_.size() && !stopped_; i = next_++) {
        Status status = copy(copies_[i], sinks_[i].get());
        if (!status.ok()) fail(std::move(status));
      }
    } catch (const std::bad_alloc&) {
      fail(Status(StatusCode::kResourceExhausted, "no memory for the buffers of a copy"));
    }
  }

  Status copy(const TensorCopy& copy, TensorSink* sink) {
    const DType from = copy.source->dtype();
    const int64_t size = std::max(dtype_size(from), dtype_size(copy.target_dtype));
    const int64_t step = std::max<int64_t>(chunk_bytes_ / size, 1);
    std::vector<std::byte> read, converted;
    uint32_t crc = 0;
    uint64_t offset = 0;
    for (int64_t at = 0; at < copy.source->elements() && !stopped_; at += step) {
      const int64_t count = std::min(step, copy.source->elements() - at);
      read.resize(static_cast<size_t>(count * dtype_size(from)));
      MEG_RETURN_IF_ERROR(copy.source->read(at, read));
      std::span<const std::byte> bytes = read;
      if (from != copy.target_dtype) {
        converted.resize(static_cast<size_t>(count * dtype_size(copy.target_dtype)));
        MEG_RETURN_IF_ERROR(convert_floats(from, read, copy.target_dtype, converted));
        bytes = converted;
      }
      MEG_RETURN_IF_ERROR(sink->write(offset, bytes));
      if (sink->wants_crc()) crc = io::crc32(bytes, crc);
      offset += bytes.size();
      MEG_RETURN_IF_ERROR(report(static_cast<int64_t>(bytes.size())));
    }
    if (sink->wants_crc()) sink->set_crc(crc);
    return Status();
  }

  Status report(int64_t bytes) {
    const std::lock_guard lock(mutex_);
    written_ += bytes;
    if (!options_.progress) return Status();
    Progress progress;
    progress.bytes = written_;
    progress.total_bytes = total_;
    if (options_.progress(progress)) return Status();
    return Status(StatusCode::kCancelled, "cancelled");
  }

  void fail(Status status) {
    const std::lock_guard lock(mutex_);
    if (status_.ok()) status_ = std::move(status);
    stopped_ = true;
  }

  std::span<const TensorCopy> copies_;
  std::span<const std::unique_ptr<TensorSink>> sinks_;
  const CopyOptions& options_;
  int64_t chunk_bytes_ = kMinChunkBytes;
  int64_t total_ = 0;
  std::atomic<size_t> next_ = 0;
  std::atomic<bool> stopped_ = false;
  std::mutex mutex_;  ///< Of what follows.
  int64_t written_ = 0;
  Status status_;
};

}  // namespace

Status run_copies(std::span<const TensorCopy> copies,
                  std::span<const std::unique_ptr<TensorSink>> sinks, const CopyOptions& options) {
  return CopyRun(copies, sinks, options).run();
}

}  // namespace meg::checkpoint
