#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace meg::tokenizer::fast {

/// Memory for lists of words that must not move.
class PlaceStore {
 public:
  std::span<uint32_t> take(size_t count) {
    if (count > left_) add_block(count);
    uint32_t* const begin = blocks_.back().get() + (block_size_ - left_);
    left_ -= count;
    return {begin, count};
  }

 private:
  static constexpr size_t kBlock = size_t{1} << 18;

  void add_block(size_t count) {
    block_size_ = std::max(count, kBlock);
    blocks_.push_back(std::make_unique_for_overwrite<uint32_t[]>(block_size_));
    left_ = block_size_;
  }

  std::vector<std::unique_ptr<uint32_t[]>> blocks_;
  size_t block_size_ = 0;
  size_t left_ = 0;
};

}  // namespace meg::tokenizer::fast
