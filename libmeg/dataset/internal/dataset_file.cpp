#include "libmeg/dataset/internal/dataset_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "libmeg/io/atomic_file.h"
#include "libmeg/io/file_descriptor.h"
#include "libmeg/io/file_lock.h"
#include "libmeg/s3/object_store.h"
#include "libmeg/s3/object_stream.h"

namespace meg::dataset {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;

/// Largest ETag that is accepted; those of stores have some dozens of bytes.
constexpr size_t kMaxEtagBytes = 4096;

Result<std::unique_ptr<s3::Object>> open_object(const std::string& address) {
  MEG_ASSIGN_OR_RETURN(const s3::ObjectStore* const store, s3::object_store());
  return store->open(address);
}

/// Where its copy lies in the cache.
Result<std::string> copy_path(const std::string& cache, const std::string& address) {
  const std::filesystem::path below = address.substr(address.find("://") + 3);
  // A key is whatever somebody called it: what is written stays inside the folder.
  if (std::find(below.begin(), below.end(), "..") == below.end()) {
    return cache + '/' + below.string();
  }
  return make_error(StatusCode::kInvalidArgument,
                    "{}: expected an address without .. for a copy in {}", address, cache);
}

template <class File>
Status copy_object(const s3::Object& object, const File& file) {
  const auto stream = s3::object_stream(object, 0, object.size(), nullptr);
  std::vector<std::byte> piece(kPieceBytes);
  for (int64_t offset = 0;;) {
    MEG_ASSIGN_OR_RETURN(const size_t got, stream->read(piece));
    if (got == 0) return Status();
    MEG_RETURN_IF_ERROR(file.write_at(offset, std::span(piece).first(got)));
    offset += static_cast<int64_t>(got);
  }
}

/// Whether the copy is of the object's content. One that another program made says no ETag, and is
/// made again.
bool is_copy_of(const s3::Object& object, const std::string& path, const std::string& etag_path) {
  if (object.etag().empty()) return false;
  std::error_code missing;
  const auto size = std::filesystem::file_size(path, missing);
  if (missing || size != static_cast<uintmax_t>(object.size())) return false;
  const auto file = io::FileDescriptor::open_regular(etag_path);
  if (!file.has_value()) return false;
  std::array<char, kMaxEtagBytes> found{};
  const Result<size_t> got = file->read(std::as_writable_bytes(std::span(found)));
  return got.has_value() && std::string_view(found.data(), *got) == object.etag();
}

Result<io::MappedFile> map_cached_copy(const s3::Object& object, const std::string& cache) {
  MEG_ASSIGN_OR_RETURN(const std::string path, copy_path(cache, object.address()));
  const std::string etag_path = path + ".etag";
  // Ranks of one machine ask for the same file at once.
  MEG_ASSIGN_OR_RETURN(const io::FileLock lock, io::FileLock::acquire(path + ".lock"));
  if (!is_copy_of(object, path, etag_path)) {
    MEG_ASSIGN_OR_RETURN(io::AtomicFile copy, io::AtomicFile::create_regular(path));
    MEG_RETURN_IF_ERROR(copy_object(object, copy));
    MEG_ASSIGN_OR_RETURN(io::AtomicFile etag, io::AtomicFile::create_regular(etag_path));
    MEG_RETURN_IF_ERROR(etag.write(std::as_bytes(std::span(object.etag()))));
    // The copy first: an ETag beside an older copy would vouch for it.
    const std::array files = {&copy, &etag};
    MEG_RETURN_IF_ERROR(io::AtomicFile::commit_all(files));
  }
  return io::MappedFile::open(path);
}

Result<io::MappedFile> map_unnamed_copy(const s3::Object& object) {
  std::error_code none;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(none);
  std::string path = (folder / "libmeg-XXXXXX").string();
  const io::FileDescriptor file(::mkostemp(path.data(), O_CLOEXEC), object.address());
  if (!file.is_open()) return errno_error(errno, path);
  // Without a name the copy is gone with its last user, however the process ends.
  ::unlink(path.c_str());
  MEG_RETURN_IF_ERROR(copy_object(object, file).with_prefix(folder.string()));
  return io::MappedFile::map(file);
}

}  // namespace

Status check_is_readable(std::string_view prefix) {
  if (prefix.find("://") == prefix.npos || s3::is_address(prefix)) return Status();
  return make_error(StatusCode::kUnsupported,
                    "{}: expected a path on this machine or s3://: datasets at other addresses are "
                    "not supported",
                    prefix);
}

Result<io::MappedFile> map_dataset_file(const std::string& path, const std::string& cache) {
  if (!s3::is_address(path)) return io::MappedFile::open(path);
  MEG_ASSIGN_OR_RETURN(const std::unique_ptr<s3::Object> object, open_object(path));
  return cache.empty() ? map_unnamed_copy(*object) : map_cached_copy(*object, cache);
}

Result<std::optional<io::MappedFile>> map_if_there(const std::string& path) {
  std::error_code unknown;
  if (!s3::is_address(path) && !std::filesystem::exists(path, unknown) && !unknown) {
    return std::optional<io::MappedFile>();
  }
  Result<io::MappedFile> file = map_dataset_file(path);
  if (file.has_value()) return std::optional(std::move(*file));
  if (s3::is_address(path) && file.error().code() == StatusCode::kNotFound) {
    return std::optional<io::MappedFile>();
  }
  return file.error();
}

}  // namespace meg::dataset
