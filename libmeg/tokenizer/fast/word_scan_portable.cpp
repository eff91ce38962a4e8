#include <array>

#include "libmeg/tokenizer/fast/word_scan_impl.h"

namespace meg::fast {
namespace {

constexpr std::array<uint8_t, 256> kClassOfByte = [] {
  std::array<uint8_t, 256> table{};
  for (unsigned c = 0; c < 0x80; ++c) {
    const bool letter = (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
    const bool number = c >= '0' && c <= '9';
    const bool space = c == ' ' || (c >= '\t' && c <= '\r');
    table[c] = static_cast<uint8_t>(letter   ? WordScan::kLetter
                                    : number ? WordScan::kNumber
                                    : space  ? WordScan::kSpace
                                             : WordScan::kOther);
  }
  return table;
}();

void classify(const unsigned char* block, BlockClasses& classes, uint64_t& blank,
              uint64_t& apostrophe) {
  classes = {};
  blank = apostrophe = 0;
  for (int i = 0; i < 64; ++i) {
    const uint64_t kind = kClassOfByte[block[i]];
    classes.letter |= (kind & 1) << i;
    classes.number |= ((kind >> 1) & 1) << i;
    classes.space |= ((kind >> 2) & 1) << i;
    classes.other |= ((kind >> 3) & 1) << i;
    classes.non_ascii |= uint64_t{block[i] >= 0x80} << i;
    blank |= uint64_t{block[i] == ' '} << i;
    apostrophe |= uint64_t{block[i] == '\''} << i;
  }
}

}  // namespace

size_t scan_words_portable(WordScan& scan, uint32_t* starts) {
  return scan_words(scan, starts, classify);
}

}  // namespace meg::fast
