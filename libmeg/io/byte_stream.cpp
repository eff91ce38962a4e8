#include "libmeg/io/byte_stream.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "libmeg/io/internal/unpacked_stream.h"

// Inputs may be pipes, which cannot be wound back and may stay silent for long. So the bytes that
// identify the compression are read once and handed on by ResumedStream, and waiting is a poll()
// that looks at `interrupted` between two polls. A regular file is always ready.

namespace meg::io {
namespace {

/// How long a wait for bytes may take to notice that it was interrupted.
constexpr int kPollMilliseconds = 50;

class FileStream : public ByteStream {
 public:
  FileStream(const FileDescriptor& file, const StreamOptions& options)
      : file_(file), interrupted_(options.interrupted) {}

  Result<size_t> read(std::span<std::byte> into) override {
    MEG_RETURN_IF_ERROR(wait_for_bytes());
    return file_.read_some(into);
  }

 private:
  Status wait_for_bytes() const {
    pollfd polled{.fd = file_.get(), .events = POLLIN, .revents = 0};
    while (interrupted_ == nullptr || !*interrupted_) {
      const int ready = ::poll(&polled, 1, kPollMilliseconds);
      // Return also where poll() fails: read() then says why.
      if (ready > 0 || (ready < 0 && errno != EINTR)) return Status();
    }
    return Status(StatusCode::kCancelled, "interrupted");
  }

  const FileDescriptor& file_;
  const std::atomic<bool>* interrupted_;
};

/// Bytes that were read to look at them, and then the rest.
class ResumedStream : public ByteStream {
 public:
  ResumedStream(std::string begin, std::unique_ptr<ByteStream> rest)
      : begin_(std::move(begin)), rest_(std::move(rest)) {}

  Result<size_t> read(std::span<std::byte> into) override {
    if (taken_ == begin_.size()) return rest_->read(into);
    const size_t count = std::min(begin_.size() - taken_, into.size());
    std::memcpy(into.data(), begin_.data() + taken_, count);
    taken_ += count;
    if (count == into.size()) return count;
    // Together: a small file is then there as a whole, which unpackers make use of.
    MEG_ASSIGN_OR_RETURN(const size_t more, rest_->read(into.subspan(count)));
    return count + more;
  }

 private:
  std::string begin_;
  size_t taken_ = 0;  // of begin_
  std::unique_ptr<ByteStream> rest_;
};

}  // namespace

/// Goes by the content, as a pipe has no name and names of downloads are often wrong.
Compression compression_of(std::string_view begin) {
  constexpr std::string_view kXz("\xfd\x37zXZ\0", kCompressionMagicBytes);
  if (begin.starts_with("\x1f\x8b")) return Compression::kGzip;
  if (begin.starts_with("\x28\xb5\x2f\xfd")) return Compression::kZstd;
  // A frame to skip, of any of 16 kinds, which pzstd writes in front of each other one.
  const bool is_skipped = begin.size() >= 4 && begin.substr(1, 3) == "\x2a\x4d\x18";
  if (is_skipped && (begin[0] & '\xf0') == '\x50') return Compression::kZstd;
  if (begin.starts_with(kXz)) return Compression::kXz;
  return Compression::kNone;
}

std::unique_ptr<ByteStream> resumed_stream(std::string begin, std::unique_ptr<ByteStream> rest) {
  return std::make_unique<ResumedStream>(std::move(begin), std::move(rest));
}

Result<FileDescriptor> open_input(const std::string& path) {
  if (path != kStandardInput) return FileDescriptor::open_for_reading(path);
  // A copy, since FileDescriptor closes what it holds, and 0 must stay open.
  const int fd = ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) return errno_error(errno, "standard input");
  return FileDescriptor(fd, "standard input");
}

std::unique_ptr<ByteStream> file_stream(const FileDescriptor& file, const StreamOptions& options) {
  return std::make_unique<FileStream>(file, options);
}

Result<std::unique_ptr<ByteStream>> content_stream(std::unique_ptr<ByteStream> packed,
                                                   std::string name, const StreamOptions& options) {
  std::string begin;
  // A pipe may give one byte at a time.
  while (begin.size() < kCompressionMagicBytes) {
    char bytes[kCompressionMagicBytes];
    const auto free = std::span(bytes).first(kCompressionMagicBytes - begin.size());
    MEG_ASSIGN_OR_RETURN(const size_t got, packed->read(std::as_writable_bytes(free)));
    // Fewer bytes than any magic number has: plain, and handed on like any others.
    if (got == 0) break;
    begin.append(bytes, got);
  }
  const Compression how = compression_of(begin);
  std::unique_ptr<ByteStream> whole = resumed_stream(std::move(begin), std::move(packed));
  if (how == Compression::kNone) return whole;
  std::unique_ptr<ByteStream> unpacked =
      unpacked_stream(std::move(whole), how, std::move(name), options);
  return options.ahead ? read_ahead_stream(std::move(unpacked)) : std::move(unpacked);
}

}  // namespace meg::io
