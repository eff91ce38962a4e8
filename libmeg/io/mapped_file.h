#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "libmeg/base/result.h"
#include "libmeg/io/file_descriptor.h"

namespace meg::io {

struct MappedRange;

/// A whole file mapped read-only. Opening costs the same for any size; pages are read when touched.
/// If the file is truncated while it is mapped, touching the missing part raises SIGBUS, which ends
/// the process; a signal handler can get the name of the file from mapped_path_at().
class MappedFile {
 public:
  /// How the pages will be touched; a hint only.
  enum class Access { kNormal, kSequential, kRandom };

  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  /// Regular files only: pipes and devices are kInvalidArgument, without waiting for a writer.
  static Result<MappedFile> open(const std::string& path, Access access = Access::kNormal);

  /// The file that is open, whatever its path names by now.
  static Result<MappedFile> map(const FileDescriptor& file, Access access = Access::kNormal);

  /// Valid as long as this object lives. Empty for an empty file.
  std::span<const std::byte> bytes() const { return bytes_; }

  /// The same bytes as text. Its data() is never null, because parsers copy from it even if the
  /// length is 0.
  std::string_view text() const {
    if (bytes_.empty()) return "";
    return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
  }

  size_t size() const { return bytes_.size(); }

  const std::string& path() const { return path_; }

  /// Lets the system drop the pages that are entirely inside [offset, offset + length); their
  /// content can still be read from the file.
  void release(size_t offset, size_t length) const;

  /// Called by a reader that has finished with `range`, a part of bytes(): does the same for its
  /// pages, including those at its ends, and for surrounding pages that the system maps in
  /// addition. So the mapped memory does not grow with the number of ranges.
  void release(std::span<const std::byte> range) const;

 private:
  std::span<const std::byte> bytes_;
  std::string path_;
  MappedRange* range_ = nullptr;  // of bytes_, for mapped_path_at()
};

/// A part of a file, mapped read-only with all of its pages: for a reader that goes over them in an
/// order of its own. See MappedFile for files that are truncated while they are mapped.
class MappedPart {
 public:
  MappedPart() = default;
  MappedPart(MappedPart&& other) noexcept;
  MappedPart& operator=(MappedPart&& other) noexcept;
  ~MappedPart();

  /// kCorruption if the file ends earlier.
  static Result<MappedPart> map(const FileDescriptor& file, uint64_t offset, size_t length);

  /// Valid as long as this object lives.
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
  std::span<const std::byte> pages_;  // with the rest of the first page before bytes_
  MappedRange* range_ = nullptr;
};

/// The path of the file that is mapped at `address`, or nullptr. Safe in signal handlers; valid as
/// long as the file stays mapped.
const char* mapped_path_at(const void* address);

}  // namespace meg::io
