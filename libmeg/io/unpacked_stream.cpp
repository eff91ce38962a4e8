#include "libmeg/io/internal/unpacked_stream.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "libmeg/base/condition_variable.h"
#include "libmeg/io/byte_stream.h"
#include "libmeg/io/internal/unpacker.h"

// Two streams that are put on top of each other by content_stream(): UnpackedStream turns packed
// bytes into plain ones on the thread that calls read(), and ReadAheadStream calls it from a thread
// of its own, so that decompressing (zlib and liblzma set the pace of gzip and xz input,
// docs/performance.md) runs beside what the reader does with the bytes.

namespace meg::io {
namespace {

constexpr size_t kPackedBytes = size_t{256} << 10;

class UnpackedStream : public ByteStream {
 public:
  UnpackedStream(std::unique_ptr<ByteStream> packed, MakeUnpacker make, std::string name,
                 UnpackingMeter meter, int64_t max_ratio)
      : packed_(std::move(packed)),
        make_(std::move(make)),
        name_(std::move(name)),
        meter_(meter),
        max_ratio_(max_ratio) {}

  Result<size_t> read(std::span<std::byte> into) override {
    if (unpacker_ == nullptr) {
      MEG_ASSIGN_OR_RETURN(unpacker_, make_());
    }
    while (true) {
      // Unpackers take headers and checksums without giving bytes, and give bytes without taking
      // any, so a step that produced nothing is not the end. At the input's end they are asked on
      // with no input until they give nothing more; then at_end distinguishes a whole file from a
      // cut one.
      if (rest_.empty() && !is_end_) MEG_RETURN_IF_ERROR(refill());
      Result<Unpacker::Step> step = unpacker_->unpack(rest_, into);
      if (!step.has_value()) return step.error().with_prefix(name_);
      rest_ = rest_.subspan(step->consumed);
      meter_.unpacked += static_cast<int64_t>(step->produced);
      MEG_RETURN_IF_ERROR(meter_.check(name_, max_ratio_));
      if (step->produced > 0) return step->produced;
      if (!is_end_ || !rest_.empty()) continue;
      if (step->at_end) return size_t{0};
      return make_error(StatusCode::kCorruption,
                        "{}: the compressed data ends in the middle, after {} bytes", name_,
                        meter_.packed);
    }
  }

 private:
  Status refill() {
    // Its pages are not touched before they are needed: many files are small.
    if (buffer_ == nullptr) buffer_.reset(new std::byte[kPackedBytes]);
    const std::span<std::byte> buffer(buffer_.get(), kPackedBytes);
    MEG_ASSIGN_OR_RETURN(const size_t got, packed_->read(buffer));
    rest_ = buffer.first(got);
    meter_.packed += static_cast<int64_t>(got);
    is_end_ = got == 0;
    return Status();
  }

  std::unique_ptr<ByteStream> packed_;
  MakeUnpacker make_;
  std::string name_;
  UnpackingMeter meter_;
  int64_t max_ratio_;
  std::unique_ptr<Unpacker> unpacker_;
  std::unique_ptr<std::byte[]> buffer_;
  std::span<const std::byte> rest_;  // of buffer_: not decompressed yet
  bool is_end_ = false;
};

/// One producer, the thread that runs read_ahead(), and one consumer, the caller of read(). Blocks
/// of 1 MiB wait in ready_, at most kBlocks of them, so memory is bounded by a few MiB whatever the
/// input decompresses to. `stream_` belongs to the thread once it runs. The end, good or bad, is
/// stored in end_ and stays: it is looked at only when ready_ is empty, so everything before the
/// damage is delivered first, and every later read() gives the same end again.
class ReadAheadStream : public ByteStream {
 public:
  explicit ReadAheadStream(std::unique_ptr<ByteStream> stream) : stream_(std::move(stream)) {}

  ~ReadAheadStream() override {
    {
      const std::lock_guard lock(mutex_);
      is_stopped_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

  Result<size_t> read(std::span<std::byte> into) override {
    if (!is_started_) start();
    if (!thread_.joinable()) return stream_->read(into);
    if (taken_ == block_.size()) MEG_RETURN_IF_ERROR(take_block());
    const size_t count = std::min(into.size(), block_.size() - taken_);
    std::copy_n(block_.begin() + static_cast<std::ptrdiff_t>(taken_), count, into.begin());
    taken_ += count;
    return count;
  }

 private:
  static constexpr size_t kBlockBytes = size_t{1} << 20;
  static constexpr size_t kBlocks = 4;

  using Block = std::vector<std::byte>;

  /// Called by the first read(), so that a stream that nobody reads costs no thread. Where the
  /// system refuses one, the caller reads by itself.
  void start() {
    is_started_ = true;
    try {
      thread_ = std::thread([this] { read_ahead(); });
    } catch (const std::system_error&) {
    }
  }

  /// The next block; an empty one, or an error, at the end.
  Status take_block() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !ready_.empty() || end_.has_value(); });
    block_.clear();
    taken_ = 0;
    if (ready_.empty()) return *end_;
    block_ = std::move(ready_.front());
    ready_.pop_front();
    changed_.notify_all();
    return Status();
  }

  void read_ahead() {
    Status status;
    try {
      // Memory that runs out must not end the process from a thread that nobody can catch it on.
      status = read_blocks();
    } catch (const std::bad_alloc&) {
      status = Status(StatusCode::kResourceExhausted, "out of memory while decompressing");
    }
    const std::lock_guard lock(mutex_);
    end_ = std::move(status);
    changed_.notify_all();
  }

  Status read_blocks() {
    while (true) {
      Block block(kBlockBytes);
      size_t used = 0;
      size_t got = 1;
      while (used < block.size() && got > 0) {
        Result<size_t> more = stream_->read(std::span(block).subspan(used));
        if (!more.has_value()) {
          block.resize(used);
          hand_over(std::move(block));  // What came before the damage is not lost.
          return more.error();
        }
        got = *more;
        used += got;
      }
      block.resize(used);
      if (!hand_over(std::move(block)) || got == 0) return Status();
    }
  }

  /// False where nobody wants more.
  bool hand_over(Block block) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_stopped_ || ready_.size() < kBlocks; });
    if (is_stopped_) return false;
    if (!block.empty()) ready_.push_back(std::move(block));
    changed_.notify_all();
    return true;
  }

  std::unique_ptr<ByteStream> stream_;
  bool is_started_ = false;
  Block block_;  // of the caller
  size_t taken_ = 0;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<Block> ready_;
  std::optional<Status> end_;
  bool is_stopped_ = false;
  // Last, so that it is gone before what it uses; the destructor has joined it by then.
  std::thread thread_;
};

}  // namespace

std::unique_ptr<ByteStream> one_unpacked_stream(std::unique_ptr<ByteStream> packed,
                                                MakeUnpacker make, std::string name,
                                                UnpackingMeter meter, int64_t max_ratio) {
  return std::make_unique<UnpackedStream>(std::move(packed), std::move(make), std::move(name),
                                          meter, max_ratio);
}

std::unique_ptr<ByteStream> unpacked_stream(std::unique_ptr<ByteStream> packed, Compression how,
                                            std::string name, const StreamOptions& options) {
  if (options.threads > 1) {
    return parallel_unpacked_stream(std::move(packed), how, std::move(name),
                                    options.max_compression_ratio, options.threads);
  }
  return one_unpacked_stream(
      std::move(packed), [how] { return make_unpacker(how); }, std::move(name), {},
      options.max_compression_ratio);
}

std::unique_ptr<ByteStream> read_ahead_stream(std::unique_ptr<ByteStream> stream) {
  return std::make_unique<ReadAheadStream>(std::move(stream));
}

}  // namespace meg::io
