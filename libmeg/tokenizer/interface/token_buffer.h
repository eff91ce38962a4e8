#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "libmeg/base/dtype.h"

namespace meg::tokenizer {

/// A growable array of token ids, kept in the dtype they are written in: uint16 or int32.
/// Growth leaves new memory uninitialized, so reserving unused space costs no pages.
class TokenBuffer {
 public:
  /// dtype: kUint16 or kInt32.
  explicit TokenBuffer(DType dtype);
  TokenBuffer(TokenBuffer&& other) noexcept;
  TokenBuffer& operator=(TokenBuffer&& other) noexcept;
  ~TokenBuffer();

  DType dtype() const { return dtype_; }

  int item_size() const { return item_size_; }

  int64_t size() const { return size_; }  ///< tokens

  std::span<const std::byte> bytes() const {
    return {data_, static_cast<size_t>(size_) * static_cast<size_t>(item_size_)};
  }

  int32_t at(int64_t index) const;

  void clear() { size_ = 0; }

  /// Removes everything after the first `tokens` tokens.
  void truncate(int64_t tokens) { size_ = tokens; }

  /// Appends one id, which must fit the dtype.
  void push_back(int32_t id);

  /// Reserves space for `count` more tokens and returns the address of the first. Id is the type of
  /// dtype() (uint16_t or int32_t). Follow with commit().
  template <class Id>
  Id* grow(int64_t count) {
    if (size_ + count > capacity_) reallocate(size_ + count);
    return reinterpret_cast<Id*>(data_) + size_;
  }

  /// Commits the number of tokens that were written to the space of grow().
  void commit(int64_t count) { size_ += count; }

  /// Frees the memory beyond `tokens` tokens; tokens beyond that are lost.
  void shrink(int64_t tokens);

 private:
  void reallocate(int64_t tokens);

  std::byte* data_ = nullptr;
  int64_t size_ = 0;      // tokens
  int64_t capacity_ = 0;  // tokens
  DType dtype_;
  int item_size_;
};

}  // namespace meg::tokenizer
