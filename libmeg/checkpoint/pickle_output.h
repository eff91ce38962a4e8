#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/checkpoint/pickle_opcode.h"
#include "libmeg/core/bytes.h"

namespace meg {

/// The bytes of a pickle in the making.
class PickleOutput {
 public:
  void opcode(PickleOpcode opcode) { bytes_.push_back(static_cast<char>(opcode)); }

  template <class T>
  void number(T value) {
    char bytes[sizeof(T)];
    store_le(bytes, value);
    bytes_.append(bytes, sizeof(T));
  }

  void text(std::string_view text) { bytes_ += text; }

  size_t size() const { return bytes_.size(); }

  std::vector<std::byte> bytes() const {
    const auto* begin = reinterpret_cast<const std::byte*>(bytes_.data());
    return {begin, begin + bytes_.size()};
  }

 private:
  std::string bytes_;
};

}  // namespace meg
