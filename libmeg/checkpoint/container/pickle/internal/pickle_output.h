#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/bytes.h"
#include "libmeg/checkpoint/container/pickle/pickle_opcode.h"

namespace meg::checkpoint {

/// Collects the bytes of a pickle of protocol 2 and counts the numbers of its memo.
class PickleOutput {
 public:
  void opcode(PickleOpcode opcode) { bytes_.push_back(static_cast<char>(opcode)); }

  template <class T>
  void number(T value) {
    char bytes[sizeof(T)];
    store_le(bytes, value);
    bytes_.append(bytes, sizeof(T));
  }

  // ---- Values, by the opcode that CPython chooses ----

  void integer(int64_t value);

  /// bytes: the shortest two's complement, little-endian.
  void big_integer(std::string_view bytes);
  void real(double value);

  /// text: less than 4 GiB, without PUT.
  void text(std::string_view text);

  /// Writes no PUT. Neither text may contain a line feed.
  void global(std::string_view module, std::string_view name);

  // ---- The memo ----

  /// Stores the last value in the memo under the next number.
  uint32_t put();

  /// Fetches a value from the memo.
  void get(uint32_t index);

  size_t size() const { return bytes_.size(); }

  std::vector<std::byte> bytes() const;

 private:
  std::string bytes_;
  uint32_t memo_size_ = 0;
};

}  // namespace meg::checkpoint
