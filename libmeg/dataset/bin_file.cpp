#include "libmeg/dataset/bin_file.h"

#include <utility>

#include "libmeg/s3/object_stream.h"

namespace meg::dataset {

Result<BinFile> BinFile::open(const std::string& path, io::MappedFile::Access access) {
  BinFile file;
  if (!s3::is_address(path)) {
    MEG_ASSIGN_OR_RETURN(file.file_, io::MappedFile::open(path, access));
    return file;
  }
  MEG_ASSIGN_OR_RETURN(const s3::ObjectStore* const store, s3::object_store());
  MEG_ASSIGN_OR_RETURN(file.object_, store->open(path));
  return file;
}

void BinFile::release(std::span<const std::byte> range) const {
  // An object keeps nothing in memory that could be released.
  if (object_ == nullptr) file_.release(range);
}

Result<std::span<const std::byte>> BinFile::read(int64_t offset, size_t count,
                                                 std::vector<std::byte>& buffer) const {
  if (object_ == nullptr) return mapped().subspan(static_cast<size_t>(offset), count);
  buffer.resize(count);
  MEG_ASSIGN_OR_RETURN(const size_t got, object_->read_at(offset, buffer, nullptr));
  if (got == count) return std::span<const std::byte>(buffer);
  return make_error(StatusCode::kIoError, "{}: byte {}: expected {} bytes, found {}", path(),
                    offset, count, got);
}

std::unique_ptr<io::ByteStream> BinFile::object_stream(int64_t begin, int64_t end) const {
  return s3::object_stream(*object_, begin, end, nullptr);
}

}  // namespace meg::dataset
