#include <cstring>

#include "libmeg/tokenizer/bpe/internal/fast/word_scan_impl.h"

namespace meg::tokenizer::fast {
namespace {

// Eight bytes in a word; a predicate's answer is the top bit of each byte.

constexpr uint64_t repeated(uint8_t byte) { return byte * 0x0101010101010101u; }

constexpr uint64_t kTops = repeated(0x80);

/// Bytes of at least `low`. bytes: each below 0x80.
uint64_t at_least(uint64_t bytes, uint8_t low) {
  return bytes + repeated(static_cast<uint8_t>(0x80 - low));
}

/// Bytes from `low` to `high`, both below 0x7f. bytes: each below 0x80.
uint64_t in_range(uint64_t bytes, uint8_t low, uint8_t high) {
  return at_least(bytes, low) & ~at_least(bytes, static_cast<uint8_t>(high + 1));
}

/// The top bits, first byte first, as the bits of a byte.
/// Byte k's answer stands at bit 8k after the shift; the multiplier has a bit at 56 - 7k for each k
/// and so adds it at bit 56 + k, and no two of the 64 products meet.
uint64_t gather(uint64_t tops) { return ((tops & kTops) >> 7) * 0x0102040810204080u >> 56; }

void classify(const unsigned char* block, BlockClasses& classes, uint64_t& blank,
              uint64_t& apostrophe) {
  classes = {};
  blank = apostrophe = 0;
  for (int i = 0; i < 64; i += 8) {
    uint64_t bytes;
    std::memcpy(&bytes, block + i, 8);
    const uint64_t ascii = ~bytes & kTops;
    // The sums of at_least() must not carry into the next byte, so the top bits are taken out first
    // and bytes outside ASCII are masked off the answers.
    const uint64_t low_bits = bytes & ~kTops;
    classes.letter |= gather(in_range(low_bits | repeated(0x20), 'a', 'z') & ascii) << i;
    classes.number |= gather(in_range(low_bits, '0', '9') & ascii) << i;
    blank |= gather(in_range(low_bits, ' ', ' ') & ascii) << i;
    classes.space |= gather(in_range(low_bits, '\t', '\r') & ascii) << i;
    apostrophe |= gather(in_range(low_bits, '\'', '\'') & ascii) << i;
    classes.non_ascii |= gather(bytes) << i;
  }
  classes.space |= blank;
  classes.other = ~(classes.letter | classes.number | classes.space | classes.non_ascii);
}

}  // namespace

size_t scan_words_portable(WordScan& scan, uint32_t* starts) {
  return scan_words<unicode_class>(scan, starts, classify);
}

size_t scan_tokenizers_words_portable(WordScan& scan, uint32_t* starts) {
  return scan_words<tokenizers_class>(scan, starts, classify);
}

}  // namespace meg::tokenizer::fast
