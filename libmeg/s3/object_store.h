#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/result.h"

namespace meg::s3 {

/// Whether `path` is s3://BUCKET/KEY or the begin of one, whatever a path of this machine may be.
bool is_address(std::string_view path);

/// An object in the state in which it was opened. Several threads may read it.
class Object {
 public:
  virtual ~Object() = default;

  virtual const std::string& address() const = 0;
  virtual int64_t size() const = 0;

  /// The store's identifier of this content (ETag), unchanged.
  virtual const std::string& etag() const = 0;

  /// Reads until `into` is full or the object ends. interrupted: may be null; once true, reading
  /// and waiting end with kCancelled. Errors name the address: those of ObjectStore::open, and
  /// kIoError if the object has been replaced.
  virtual Result<size_t> read_at(int64_t offset, std::span<std::byte> into,
                                 const std::atomic<bool>* interrupted) const = 0;
};

/// A store that speaks S3's protocol. Retries after temporary failures (5xx, "slow down", a dropped
/// connection). Thread-safe.
class ObjectStore {
 public:
  virtual ~ObjectStore() = default;

  /// Errors: kInvalidArgument if it is not an object's address, kNotFound, kIoError if the store
  /// denies access, is in another region or does not answer, kCorruption for invalid answers.
  virtual Result<std::unique_ptr<Object>> open(const std::string& address) const = 0;

  /// Addresses of the objects that begin with `prefix`, in the store's order; with is_folder only
  /// those without a further slash. Errors: as open().
  virtual Result<std::vector<std::string>> list(const std::string& prefix,
                                                bool is_folder) const = 0;
};

/// The store configured by the variables and files that AWS's programs read. Opened once per
/// process. Errors: kUnsupported if the module cannot be opened and for unsupported sources of
/// credentials, kNotFound if there are no credentials, kInvalidArgument for settings that are not
/// understood.
Result<const ObjectStore*> object_store();

}  // namespace meg::s3
