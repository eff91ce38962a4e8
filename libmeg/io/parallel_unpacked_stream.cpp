#include <algorithm>
#include <deque>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include "libmeg/io/internal/frame_splitter.h"
#include "libmeg/io/internal/unpacked_stream.h"
#include "libmeg/io/internal/unpacker.h"

// Packed bytes are read in order and cut where frames end that say their sizes. Each piece, some
// frames, is decompressed by a thread of its own; pieces_ has their results in order, and as many
// as there are threads. The first frame whose end cannot be found, because it does not
// say its size, is large, is truncated or is damaged, begins the rest, which is decompressed as any
// other file: so what is said of damage does not depend on threads.

namespace meg::io {
namespace {

/// A piece has at least so many packed or decompressed bytes, unless it is the last.
constexpr size_t kPiecePacked = size_t{1} << 20;
constexpr size_t kPieceUnpacked = size_t{4} << 20;

/// Packed bytes that are looked at for the end of a frame.
constexpr size_t kMaxBuffer = kMaxFrameBytes;
constexpr size_t kReadBytes = size_t{1} << 20;

using Block = std::vector<std::byte>;

class ParallelUnpackedStream : public ByteStream {
 public:
  ParallelUnpackedStream(std::unique_ptr<ByteStream> packed, Compression how, std::string name,
                         int64_t max_ratio, int threads)
      : packed_(std::move(packed)),
        splitter_(make_frame_splitter(how)),
        name_(std::move(name)),
        max_ratio_(max_ratio),
        threads_(static_cast<size_t>(threads)) {}

  Result<size_t> read(std::span<std::byte> into) override {
    while (taken_ == block_.size()) {
      // After damage every call gives the same error, as reading one file by one thread does.
      MEG_RETURN_IF_ERROR(error_);
      while (rest_ == nullptr && pieces_.size() < threads_ && end_.ok()) end_ = cut_piece();
      if (pieces_.empty()) {
        MEG_RETURN_IF_ERROR(end_);
        return rest_->read(into);
      }
      take_piece();
    }
    const size_t count = std::min(into.size(), block_.size() - taken_);
    std::copy_n(block_.begin() + static_cast<std::ptrdiff_t>(taken_), count, into.begin());
    taken_ += count;
    return count;
  }

 private:
  struct Piece {
    size_t packed;
    std::future<Result<Block>> block;
  };

  void take_piece() {
    Piece piece = std::move(pieces_.front());
    pieces_.pop_front();
    Result<Block> block = piece.block.get();
    if (!block.has_value()) {
      return fail(block.error().with_prefix(name_));
    }
    block_ = std::move(*block);
    taken_ = 0;
    meter_.packed += static_cast<int64_t>(piece.packed);
    meter_.unpacked += std::ssize(block_);
    // Check in the order of the file, as for one thread, whatever pieces have been decompressed
    // meanwhile.
    Status found = meter_.check(name_, max_ratio_);
    if (!found.ok()) fail(std::move(found));
  }

  void fail(Status error) {
    error_ = std::move(error);
    pieces_.clear();
    block_.clear();
    taken_ = 0;
  }

  /// Hands the next frames to a thread; else the rest begins.
  Status cut_piece() {
    size_t packed = 0;
    size_t unpacked = 0;
    std::vector<Frame> frames;
    while (packed < kPiecePacked && unpacked < kPieceUnpacked) {
      const Frame frame = splitter_->next(std::as_bytes(std::span(buffer_)).subspan(packed));
      if (frame.kind == Frame::Kind::kMore && !is_end_ && buffer_.size() - packed < kMaxBuffer) {
        MEG_RETURN_IF_ERROR(read_more());
        continue;
      }
      if (frame.kind == Frame::Kind::kNone || frame.kind == Frame::Kind::kMore) break;
      packed += frame.packed;
      unpacked += frame.unpacked;
      frames.push_back(frame);
    }
    if (packed == 0) return begin_rest();
    std::string piece = buffer_.substr(0, packed);
    buffer_.erase(0, packed);
    pieces_.push_back(
        {packed, std::async(std::launch::async | std::launch::deferred, &FrameSplitter::unpack,
                            splitter_.get(), std::move(piece), std::move(frames))});
    ahead_.packed += static_cast<int64_t>(packed);
    ahead_.unpacked += static_cast<int64_t>(unpacked);
    return Status();
  }

  Status read_more() {
    const size_t before = buffer_.size();
    buffer_.resize(before + kReadBytes);
    const Result<size_t> got =
        packed_->read(std::as_writable_bytes(std::span(buffer_)).subspan(before));
    buffer_.resize(before + (got.has_value() ? *got : 0));
    is_end_ = got.has_value() && *got == 0;
    return got.status();
  }

  Status begin_rest() {
    // Its count begins with the frames before it: the ratio is one of the whole file.
    rest_ = one_unpacked_stream(
        resumed_stream(std::exchange(buffer_, {}), std::move(packed_)),
        [this] { return splitter_->unpack_rest(); }, name_, ahead_, max_ratio_);
    return Status();
  }

  std::unique_ptr<ByteStream> packed_;
  std::unique_ptr<FrameSplitter> splitter_;
  std::string name_;
  int64_t max_ratio_;
  size_t threads_;
  std::string buffer_;  // packed bytes that are in no piece yet
  bool is_end_ = false;
  UnpackingMeter ahead_;  // of all pieces
  std::deque<Piece> pieces_;
  UnpackingMeter meter_;  // of those that were taken
  std::unique_ptr<ByteStream> rest_;
  Block block_;
  size_t taken_ = 0;  // of block_
  Status error_;      // stays
  Status end_;        // of the packed bytes; waits until the pieces before it are given
};

}  // namespace

std::unique_ptr<ByteStream> parallel_unpacked_stream(std::unique_ptr<ByteStream> packed,
                                                     Compression how, std::string name,
                                                     int64_t max_ratio, int threads) {
  return std::make_unique<ParallelUnpackedStream>(std::move(packed), how, std::move(name),
                                                  max_ratio, threads);
}

}  // namespace meg::io
