#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "libmeg/base/result.h"
#include "libmeg/io/byte_stream.h"

namespace meg::io {

/// One compression library's decoder.
class Unpacker {
 public:
  struct Step {
    size_t consumed = 0;
    size_t produced = 0;
    bool at_end = false;  ///< The data so far may end here: a member has ended, no other begun.
  };

  virtual ~Unpacker() = default;

  /// Unpacks some of `in`, which is empty only at the input's end, into `out`. An error's message
  /// says what is wrong, without the file's name.
  virtual Result<Step> unpack(std::span<const std::byte> in, std::span<std::byte> out) = 0;
};

using MakeUnpacker = std::function<Result<std::unique_ptr<Unpacker>>()>;

/// kResourceExhausted without memory. how: not kNone.
Result<std::unique_ptr<Unpacker>> make_unpacker(Compression how);

}  // namespace meg::io
