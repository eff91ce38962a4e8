#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace meg::tokenizer::fast {
namespace {

/// See byte_block_avx512.h. Here a word holds eight bytes, and the answer of a predicate is the top
/// bit of each.
class ByteBlock {
 public:
  explicit ByteBlock(const unsigned char* bytes) {
    std::memcpy(words_.data(), bytes, sizeof(words_));
  }

  uint64_t in_range(uint8_t low, uint8_t high) const {
    return gathered([=](uint64_t word) { return in_range(word, low, high); });
  }

  uint64_t equal(char byte) const {
    return gathered([=](uint64_t word) {
      const uint64_t difference = word ^ repeated(static_cast<uint8_t>(byte));
      return ~(((difference & ~kTops) + ~kTops) | difference);
    });
  }

  uint64_t letters() const {
    return gathered([](uint64_t word) { return in_range(word | repeated(0x20), 'a', 'z'); });
  }

  uint64_t non_ascii() const {
    return gathered([](uint64_t word) { return word; });
  }

  uint64_t leads() const {
    return gathered([](uint64_t word) { return word & word << 1; });
  }

  uint64_t wide_leads() const {
    return gathered([](uint64_t word) {
      // In the low seven bits of a byte: 63 to 6F.
      return in_range(word & ~kTops, 0x63, 0x6F) & word;
    });
  }

 private:
  static constexpr uint64_t kTops = 0x8080808080808080u;

  static constexpr uint64_t repeated(uint8_t byte) { return byte * (kTops >> 7); }

  /// The sums must not carry into the next byte, so the top bits are taken out first, and bytes
  /// outside ASCII are masked off the answer.
  static uint64_t in_range(uint64_t word, uint8_t low, uint8_t high) {
    const uint64_t low_bits = word & ~kTops;
    const uint64_t at_least_low = low_bits + repeated(static_cast<uint8_t>(0x80 - low));
    const uint64_t above_high = low_bits + repeated(static_cast<uint8_t>(0x7f - high));
    return at_least_low & ~above_high & ~word;
  }

  /// The answers' top bits, first byte first. In a word, byte k's answer stands at bit 8k after the
  /// shift; the multiplier has a bit at 56 - 7k for each k and so adds it at bit 56 + k, and no two
  /// of the 64 products meet.
  template <class Predicate>
  uint64_t gathered(const Predicate& predicate) const {
    uint64_t bits = 0;
    for (size_t i = 0; i < 8; ++i) {
      const uint64_t tops = predicate(words_[i]) & kTops;
      bits |= ((tops >> 7) * 0x0102040810204080u >> 56) << (8 * i);
    }
    return bits;
  }

  std::array<uint64_t, 8> words_;
};

}  // namespace
}  // namespace meg::tokenizer::fast
