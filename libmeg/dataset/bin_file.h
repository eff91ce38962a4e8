#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/io/byte_stream.h"
#include "libmeg/io/mapped_file.h"
#include "libmeg/s3/object_store.h"

namespace meg::dataset {

/// PREFIX.bin: a file, mapped read-only, or an object in a store, whose bytes are fetched on demand
/// and not kept. Safe for any number of threads.
class BinFile {
 public:
  BinFile() = default;

  /// path: of a file or s3://BUCKET/KEY. Errors: those of MappedFile::open and ObjectStore::open.
  static Result<BinFile> open(const std::string& path, io::MappedFile::Access access);

  const std::string& path() const { return object_ ? object_->address() : file_.path(); }

  int64_t size() const { return object_ ? object_->size() : static_cast<int64_t>(file_.size()); }

  /// The object; nullptr for a file.
  const s3::Object* object() const { return object_.get(); }

  /// The mapped bytes of a file; empty for an object.
  std::span<const std::byte> mapped() const { return file_.bytes(); }

  /// Like MappedFile::release. Does nothing for an object.
  void release(std::span<const std::byte> range) const;

  /// `count` bytes starting at `offset`, all of which must be in the file: in place if it is
  /// mapped, otherwise in `buffer`. Errors: those of Object::read_at.
  Result<std::span<const std::byte>> read(int64_t offset, size_t count,
                                          std::vector<std::byte>& buffer) const;

  /// Bytes [begin, end) of an object, prefetched a few requests ahead.
  std::unique_ptr<io::ByteStream> object_stream(int64_t begin, int64_t end) const;

 private:
  io::MappedFile file_;
  std::shared_ptr<const s3::Object> object_;
};

}  // namespace meg::dataset
