#include "libmeg/dataset/internal/item_cursor.h"

#include <algorithm>

namespace meg::dataset {
namespace {

/// Pages of a mapping behind the place that is being read: let go in steps of this size.
constexpr int64_t kBytesKept = int64_t{8} << 20;

/// Bytes of a request: few where items lie far apart, and twice as many each time they do not, so
/// that neither a view's scattered documents nor a dataset of short ones cost much that is not
/// used.
constexpr int64_t kLeastWindow = int64_t{64} << 10;
constexpr int64_t kMostWindow = int64_t{8} << 20;

}  // namespace

ItemCursor::~ItemCursor() {
  const auto bytes = bin_.mapped();
  const auto begin = static_cast<size_t>(begin_);
  if (!bytes.empty()) {
    bin_.release(bytes.subspan(begin, std::min(size_t{kBytesKept}, bytes.size() - begin)));
  }
}

Result<const std::byte*> ItemCursor::item(int64_t offset, int64_t size) {
  if (bin_.object() == nullptr) return mapped_item(offset);
  const int64_t end = begin_ + std::ssize(fetched_);
  if (offset < begin_ || offset + size > end) {
    const bool is_near = window_ > 0 && offset >= begin_ && offset - end <= window_;
    window_ = is_near ? std::min(2 * window_, kMostWindow) : kLeastWindow;
    begin_ = offset;
    const int64_t count = std::min(window_, bin_.size() - offset);
    MEG_RETURN_IF_ERROR(bin_.read(offset, static_cast<size_t>(count), fetched_).status());
  }
  return fetched_.data() + (offset - begin_);
}

const std::byte* ItemCursor::mapped_item(int64_t offset) {
  // Views go back, too; pages behind a place that is returned to are left to the system.
  if (begin_ == 0 || offset < begin_) begin_ = offset;
  if (offset - begin_ > kBytesKept) {
    bin_.release(
        bin_.mapped().subspan(static_cast<size_t>(begin_), static_cast<size_t>(offset - begin_)));
    begin_ = offset;
  }
  return bin_.mapped().data() + offset;
}

}  // namespace meg::dataset
