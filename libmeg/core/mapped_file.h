#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "libmeg/core/result.h"

namespace meg {

/// A whole file mapped read-only. Opening costs the same for any size; pages are read when touched.
/// The file must not be cut short while it is mapped (the system then ends the process).
class MappedFile {
 public:
  /// How the pages will be touched; a hint only.
  enum class Access { kNormal, kSequential, kRandom };

  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  static Result<MappedFile> open(const std::string& path, Access access = Access::kNormal);

  /// Valid as long as this object lives. Empty for an empty file.
  std::span<const std::byte> bytes() const { return bytes_; }

  size_t size() const { return bytes_.size(); }

  const std::string& path() const { return path_; }

  /// Lets the system drop the pages that lie wholly inside [offset, offset + length); their content
  /// stays readable from the file.
  void release(size_t offset, size_t length) const;

  /// For a reader that has passed `stretch`, a part of bytes(): the same for its pages, those at
  /// its ends too, and for those around it that the system maps unasked. So what stays mapped does
  /// not grow with the number of stretches.
  void release(std::span<const std::byte> stretch) const;

 private:
  std::span<const std::byte> bytes_;
  std::string path_;
};

}  // namespace meg
