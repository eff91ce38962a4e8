#include "libmeg/tokenizer/interface/token_buffer.h"

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <new>
#include <utility>

#include "libmeg/base/bytes.h"

namespace meg::tokenizer {

TokenBuffer::TokenBuffer(DType dtype) : dtype_(dtype), item_size_(dtype_size(dtype)) {
  assert(dtype == DType::kUint16 || dtype == DType::kInt32);
}

TokenBuffer::TokenBuffer(TokenBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      capacity_(std::exchange(other.capacity_, 0)),
      dtype_(other.dtype_),
      item_size_(other.item_size_) {}

TokenBuffer& TokenBuffer::operator=(TokenBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(capacity_, other.capacity_);
  std::swap(dtype_, other.dtype_);
  std::swap(item_size_, other.item_size_);
  return *this;
}

TokenBuffer::~TokenBuffer() { std::free(data_); }

int32_t TokenBuffer::at(int64_t index) const {
  const std::byte* address = data_ + index * item_size_;
  return item_size_ == 2 ? load_le<uint16_t>(address) : load_le<int32_t>(address);
}

void TokenBuffer::push_back(int32_t id) {
  if (item_size_ == 2) {
    *grow<uint16_t>(1) = static_cast<uint16_t>(id);
  } else {
    *grow<int32_t>(1) = id;
  }
  commit(1);
}

void TokenBuffer::shrink(int64_t tokens) {
  if (capacity_ <= tokens) return;
  size_ = std::min(size_, tokens);
  void* moved = std::realloc(data_, static_cast<size_t>(std::max<int64_t>(tokens, 1) * item_size_));
  // A buffer that could not be made smaller is still a good one.
  if (moved == nullptr) return;
  data_ = static_cast<std::byte*>(moved);
  capacity_ = std::max<int64_t>(tokens, 1);
}

void TokenBuffer::reallocate(int64_t tokens) {
  // realloc instead of a vector: new ids are written without clearing their room first, and large
  // buffers grow by moving pages.
  const int64_t capacity = std::max<int64_t>(tokens, capacity_ + capacity_ / 2);
  void* moved = std::realloc(data_, static_cast<size_t>(capacity * item_size_));
  if (moved == nullptr) throw std::bad_alloc();
  data_ = static_cast<std::byte*>(moved);
  capacity_ = capacity;
}

}  // namespace meg::tokenizer
