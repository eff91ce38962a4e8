#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "libmeg/io/file_descriptor.h"

// The source is walked as runs of data and holes. A run is moved by the kernel (copy_file_range),
// which may share blocks instead of copying them; where it cannot, the rest goes through a buffer.
// Holes are skipped, so the target gets the same holes: it must have nothing there yet, and
// extend() gives it its length where the source ends in a hole.

namespace meg::io {
namespace {

/// Bytes between two questions whether to continue: few enough to notice an interruption soon, so
/// many that asking costs nothing.
constexpr int64_t kTurnBytes = int64_t{64} << 20;

/// Bytes that go through memory at a time where the system cannot copy by itself.
constexpr int64_t kBufferBytes = int64_t{1} << 20;

/// One call of copy_from().
class Copy {
 public:
  Copy(const FileDescriptor& from, const FileDescriptor& to) : from_(from), to_(to) {}

  /// Moves some of `count` bytes that are no hole; returns how many.
  Result<int64_t> move(int64_t from_offset, int64_t offset, int64_t count) {
    if (in_system_) {
      MEG_ASSIGN_OR_RETURN(const int64_t moved, move_in_system(from_offset, offset, count));
      if (moved > 0) return moved;
      // Some file systems say 0 where they cannot; so does a source that was truncated, which the
      // read through memory then reports. It is not tried again for every turn.
      in_system_ = false;
    }
    return move_through_memory(from_offset, offset, std::min(count, kBufferBytes));
  }

 private:
  Result<int64_t> move_in_system(int64_t from_offset, int64_t offset, int64_t count) const {
    while (true) {
      const ssize_t moved = ::copy_file_range(from_.get(), &from_offset, to_.get(), &offset,
                                              static_cast<size_t>(count), 0);
      if (moved >= 0) return moved;
      // Reasons why this pair of files cannot be copied within the system; other errors are the
      // device's.
      if (errno == EXDEV || errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP) return 0;
      if (errno != EINTR) return errno_error(errno, to_.path());
    }
  }

  Result<int64_t> move_through_memory(int64_t from_offset, int64_t offset, int64_t count) {
    buffer_.resize(static_cast<size_t>(kBufferBytes));
    const auto bytes = std::span(buffer_).first(static_cast<size_t>(count));
    MEG_RETURN_IF_ERROR(from_.read_exactly_at(static_cast<uint64_t>(from_offset), bytes));
    MEG_RETURN_IF_ERROR(to_.write_at(offset, bytes));
    return count;
  }

  const FileDescriptor& from_;
  const FileDescriptor& to_;
  bool in_system_ = true;
  std::vector<std::byte> buffer_;
};

/// The end of the hole at `offset`, which is `offset` where there is none; at most `end`.
int64_t hole_end(const FileDescriptor& file, int64_t offset, int64_t end) {
  const off_t data = ::lseek(file.get(), offset, SEEK_DATA);
  if (data >= 0) return std::min<int64_t>(data, end);
  // ENXIO: nothing but a hole up to the file's end. Any other error: the file system knows no
  // holes.
  return errno == ENXIO ? end : offset;
}

/// The end of the data at `offset`; at most `end`.
int64_t data_end(const FileDescriptor& file, int64_t offset, int64_t end) {
  const off_t hole = ::lseek(file.get(), offset, SEEK_HOLE);
  return hole > offset ? std::min<int64_t>(hole, end) : end;
}

/// Makes `file` at least `size` bytes long.
Status extend(const FileDescriptor& file, int64_t size) {
  // Never shorten it: several ranges may be copied into one file, in any order.
  MEG_ASSIGN_OR_RETURN(const int64_t now, file.size());
  if (now < size && ::ftruncate(file.get(), size) != 0) return errno_error(errno, file.path());
  return Status();
}

}  // namespace

Status FileDescriptor::copy_from(const FileDescriptor& from, int64_t from_offset, int64_t length,
                                 int64_t offset, const Moved& moved) const {
  MEG_ASSIGN_OR_RETURN(const int64_t size, from.size());
  if (from_offset < 0 || length < 0 || from_offset > size - length) {
    return make_error(StatusCode::kCorruption, "{}: expected {} bytes from byte {} on, found {}",
                      from.path(), length, from_offset, size);
  }
  Copy copy(from, *this);
  const bool may_have_holes = from.may_have_holes();
  const int64_t end = from_offset + length;
  const int64_t shift = offset - from_offset;
  for (int64_t at = from_offset; at < end;) {
    // A turn takes one hole and about kTurnBytes of the data after it, in one or several moves.
    const int64_t begin = at;
    if (may_have_holes) at = hole_end(from, at, end);
    for (const int64_t stop = may_have_holes && at < end ? data_end(from, at, end) : end;
         at < stop && at - begin < kTurnBytes;) {
      const int64_t count = std::min(stop - at, kTurnBytes);
      MEG_ASSIGN_OR_RETURN(const int64_t done, copy.move(at, at + shift, count));
      at += done;
    }
    if (moved && !moved(at - begin)) return Status(StatusCode::kCancelled, "interrupted");
  }
  return extend(*this, offset + length);
}

}  // namespace meg::io
