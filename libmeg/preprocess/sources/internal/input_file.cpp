#include "libmeg/preprocess/sources/internal/input_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "libmeg/io/file_descriptor.h"
#include "libmeg/s3/object_store.h"
#include "libmeg/s3/object_stream.h"

// One interface over local files, pipes, standard input and objects of a store. Reading at offsets
// is pread, so that threads share a descriptor without a position.

namespace meg::preprocess {
namespace {

/// A part of a regular file.
class PartStream : public io::ByteStream {
 public:
  PartStream(const io::FileDescriptor& file, ByteRange part) : file_(file), rest_(part) {}

  Result<size_t> read(std::span<std::byte> into) override {
    const auto left = static_cast<size_t>(rest_.end - rest_.begin);
    MEG_ASSIGN_OR_RETURN(const size_t got,
                         file_.read_at(rest_.begin, into.first(std::min(into.size(), left))));
    // It had these bytes when the run began. Taking this for the end would silently lose
    // documents.
    if (got == 0 && left > 0) {
      return make_error(StatusCode::kIoError, "{}: was truncated while it was read", file_.path());
    }
    rest_.begin += static_cast<int64_t>(got);
    return got;
  }

 private:
  const io::FileDescriptor& file_;
  ByteRange rest_;
};

/// A file of this machine, or a pipe.
class LocalFile : public InputFile {
 public:
  explicit LocalFile(io::FileDescriptor file) : InputFile(file.path()), file_(std::move(file)) {}

  Result<std::optional<ByteRange>> extent() const override {
    struct stat info {};

    if (::fstat(file_.get(), &info) != 0) return errno_error(errno, name());
    if (S_ISDIR(info.st_mode)) return errno_error(EISDIR, name());
    if (!S_ISREG(info.st_mode)) return std::optional<ByteRange>();
    // Not 0 only for standard input, whose position a shell may have moved: `(read line;
    // preprocess_data ...) < file`.
    // Not 0 only for standard input.
    const int64_t begin = ::lseek(file_.get(), 0, SEEK_CUR);
    const int64_t end = info.st_size;
    return std::optional<ByteRange>({std::min(begin, end), end});
  }

  Result<size_t> read_at(int64_t offset, std::span<std::byte> into) const override {
    return file_.read_at(offset, into);
  }

  std::unique_ptr<io::ByteStream> stream(std::optional<ByteRange> part,
                                         const io::StreamOptions& options) const override {
    if (part.has_value()) return std::make_unique<PartStream>(file_, *part);
    return io::file_stream(file_, options);
  }

  bool is_remote() const override { return false; }

  Result<std::string> identity() const override {
    struct stat info {};

    if (::fstat(file_.get(), &info) != 0) return errno_error(errno, name());
    // Include ns: a file that is written twice within a second differs.
    const int64_t modified = info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec;
    return fmt::format("{} bytes of time {}", info.st_size, modified);
  }

 private:
  io::FileDescriptor file_;
};

class ObjectFile : public InputFile {
 public:
  explicit ObjectFile(std::unique_ptr<s3::Object> object)
      : InputFile(object->address()), object_(std::move(object)) {}

  Result<std::optional<ByteRange>> extent() const override {
    return std::optional<ByteRange>({0, object_->size()});
  }

  Result<size_t> read_at(int64_t offset, std::span<std::byte> into) const override {
    return object_->read_at(offset, into, nullptr);
  }

  std::unique_ptr<io::ByteStream> stream(std::optional<ByteRange> part,
                                         const io::StreamOptions& options) const override {
    const ByteRange range = part.value_or(ByteRange{0, object_->size()});
    return s3::object_stream(*object_, range.begin, range.end, options.interrupted);
  }

  bool is_remote() const override { return true; }

  Result<std::string> identity() const override {
    return fmt::format("{} bytes of ETag {}", object_->size(), object_->etag());
  }

 private:
  std::unique_ptr<s3::Object> object_;
};

}  // namespace

Result<std::unique_ptr<InputFile>> InputFile::open(const std::string& path) {
  if (s3::is_address(path)) {
    MEG_ASSIGN_OR_RETURN(const s3::ObjectStore* const store, s3::object_store());
    MEG_ASSIGN_OR_RETURN(std::unique_ptr<s3::Object> object, store->open(path));
    return std::unique_ptr<InputFile>(std::make_unique<ObjectFile>(std::move(object)));
  }
  MEG_ASSIGN_OR_RETURN(io::FileDescriptor file, io::open_input(path));
  return std::unique_ptr<InputFile>(std::make_unique<LocalFile>(std::move(file)));
}

}  // namespace meg::preprocess
