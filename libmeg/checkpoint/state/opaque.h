#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace meg::checkpoint {

/// A value of a checkpoint that is passed along without being interpreted: a writer of the same
/// container writes it again unchanged. Containers derive from it.
class Opaque {
 public:
  Opaque() = default;
  Opaque(const Opaque&) = delete;
  Opaque& operator=(const Opaque&) = delete;
  virtual ~Opaque() = default;

  /// The path where it was found, for messages.
  virtual std::string origin() const = 0;

  /// The value in one line of about `limit` bytes, for messages.
  virtual std::string describe(size_t limit) const = 0;
};

using OpaqueValue = std::shared_ptr<const Opaque>;

}  // namespace meg::checkpoint
