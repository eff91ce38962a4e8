#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "libmeg/base/dtype.h"
#include "libmeg/io/atomic_file.h"

namespace meg::packing {

/// The tokens and masks of conversations in the order of the input, until it is known which lie
/// together: in files beside the output that never appear and are removed at the end.
class TokenSpool {
 public:
  static Result<TokenSpool> create(const std::string& prefix, DType dtype);

  /// Takes conversations, by their lengths in tokens; returns the number of the first of their
  /// tokens, for write_at(). By one thread at a time.
  int64_t reserve(std::span<const int32_t> lengths);

  /// By any number of threads.
  Status write_at(int64_t first_token, std::span<const std::byte> tokens,
                  std::span<const uint8_t> mask) const;

  const std::vector<int32_t>& lengths() const { return lengths_; }

  /// Sets `tokens` and `mask` to those of a conversation.
  Status read(size_t conversation, std::vector<std::byte>& tokens,
              std::vector<std::byte>& mask) const;

 private:
  TokenSpool(io::AtomicFile tokens, io::AtomicFile mask, size_t item_size)
      : tokens_(std::move(tokens)), mask_(std::move(mask)), item_size_(item_size) {}

  io::AtomicFile tokens_;
  io::AtomicFile mask_;
  size_t item_size_;  // bytes
  std::vector<int32_t> lengths_;
  std::vector<int64_t> begins_;  // tokens
  int64_t tokens_taken_ = 0;
};

}  // namespace meg::packing
