#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "libmeg/base/dtype.h"
#include "libmeg/base/result.h"
#include "libmeg/io/mapped_file.h"

namespace meg::numpy {

/// The first bytes of a .npy file of version 1.0, C order, as numpy.save writes them; the elements
/// follow, little endian. kUnsupported for a dtype that numpy does not have.
Result<std::string> npy_header(DType dtype, std::span<const int64_t> shape);

/// A .npy file, mapped read-only. Only plain arrays: no objects, no Fortran order, no structures;
/// nothing in the file is executed, or used before it is checked against the file's size.
class NpyFile {
 public:
  NpyFile() = default;

  /// kCorruption for files that are damaged or truncated, kUnsupported for other kinds of arrays.
  static Result<NpyFile> open(const std::string& path,
                              io::MappedFile::Access access = io::MappedFile::Access::kNormal);

  DType dtype() const { return dtype_; }

  const std::vector<int64_t>& shape() const { return shape_; }

  /// Elements in all.
  int64_t size() const { return size_; }

  const std::string& path() const { return file_.path(); }

  const io::MappedFile& file() const { return file_; }

  /// All elements. kInvalidArgument if T is not the file's type, kCorruption if the elements are
  /// not aligned to their size. Valid as long as this object, moved or not.
  template <class T>
  Result<std::span<const T>> values() const {
    MEG_ASSIGN_OR_RETURN(const std::byte* first, first_element(dtype_of<T>(), alignof(T)));
    return std::span<const T>(reinterpret_cast<const T*>(first), static_cast<size_t>(size_));
  }

 private:
  Result<const std::byte*> first_element(DType dtype, size_t alignment) const;

  io::MappedFile file_;
  DType dtype_ = DType::kInt32;
  std::vector<int64_t> shape_;
  int64_t size_ = 0;
  size_t offset_ = 0;
};

}  // namespace meg::numpy
