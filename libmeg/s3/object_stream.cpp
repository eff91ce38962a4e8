#include "libmeg/s3/object_stream.h"

#include <algorithm>
#include <deque>
#include <future>
#include <utility>
#include <vector>

// One connection gives a fraction of what a machine can take, so kBlocks requests run at once, each
// for the next block, and their answers are given in order: the front of `blocks_` is the block
// that read() is at. A block's thread holds nothing of the stream but the object and a flag.

namespace meg::s3 {
namespace {

constexpr int64_t kBlockBytes = int64_t{8} << 20;
constexpr size_t kBlocks = 4;

using Block = std::vector<std::byte>;

Result<Block> fetch(const Object& object, int64_t begin, int64_t end,
                    const std::atomic<bool>* interrupted) {
  Block block(static_cast<size_t>(end - begin));
  MEG_ASSIGN_OR_RETURN(const size_t got, object.read_at(begin, block, interrupted));
  block.resize(got);
  return block;
}

class ObjectStream : public io::ByteStream {
 public:
  ObjectStream(const Object& object, int64_t begin, int64_t end,
               const std::atomic<bool>* interrupted)
      : object_(object), next_(begin), end_(end), interrupted_(interrupted) {}

  Result<size_t> read(std::span<std::byte> into) override {
    if (taken_ == block_.size()) error_ = take_block();
    MEG_RETURN_IF_ERROR(error_);
    const size_t count = std::min(into.size(), block_.size() - taken_);
    std::copy_n(block_.begin() + static_cast<std::ptrdiff_t>(taken_), count, into.begin());
    taken_ += count;
    return count;
  }

 private:
  /// The next block; an empty one at the end.
  Status take_block() {
    MEG_RETURN_IF_ERROR(error_);
    request_blocks();
    block_.clear();
    taken_ = 0;
    if (blocks_.empty()) return Status();
    Result<Block> block = blocks_.front().get();
    blocks_.pop_front();
    if (!block.has_value()) return block.error();
    block_ = std::move(*block);
    return Status();
  }

  /// A lone block needs no thread. Where the system refuses one, get() fetches.
  void request_blocks() {
    while (blocks_.size() < kBlocks && next_ < end_) {
      const int64_t end = std::min(end_, next_ + kBlockBytes);
      const bool is_lone = blocks_.empty() && end == end_;
      const auto when =
          is_lone ? std::launch::deferred : std::launch::async | std::launch::deferred;
      // Futures of std::async wait in their destructor, so `object_` outlives its requests.
      blocks_.push_back(std::async(when, fetch, std::cref(object_), next_, end, interrupted_));
      next_ = end;
    }
  }

  const Object& object_;
  int64_t next_;  // where the first block begins that is not asked for yet
  int64_t end_;
  const std::atomic<bool>* interrupted_;
  std::deque<std::future<Result<Block>>> blocks_;
  Block block_;
  size_t taken_ = 0;  // of block_
  Status error_;      // stays
};

}  // namespace

std::unique_ptr<io::ByteStream> object_stream(const Object& object, int64_t begin, int64_t end,
                                              const std::atomic<bool>* interrupted) {
  return std::make_unique<ObjectStream>(object, begin, end, interrupted);
}

}  // namespace meg::s3
