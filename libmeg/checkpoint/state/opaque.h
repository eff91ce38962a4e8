#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace meg::checkpoint {

/// A value of a checkpoint that is carried along, not understood: what a writer of the same
/// container writes again unchanged. Containers derive from it.
class Opaque {
 public:
  Opaque() = default;
  Opaque(const Opaque&) = delete;
  Opaque& operator=(const Opaque&) = delete;
  virtual ~Opaque() = default;

  /// Where it was found, for messages: a path.
  virtual std::string origin() const = 0;

  /// The value in one line of about `limit` bytes, for messages.
  virtual std::string describe(size_t limit) const = 0;
};

using OpaqueValue = std::shared_ptr<const Opaque>;

}  // namespace meg::checkpoint
