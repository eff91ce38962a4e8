#include <immintrin.h>

#include "libmeg/tokenizer/bpe/internal/fast/word_scan_impl.h"

namespace meg::tokenizer::fast {
namespace {

/// Bytes of `values - low` that lie in 0..width, as a mask.
inline uint32_t in_range(__m256i values, char low, char width) {
  // AVX2 compares signed bytes only; the unsigned minimum with the width is the distance itself
  // where that is within it. Values below `low` wrap around to large distances.
  const __m256i distance = _mm256_sub_epi8(values, _mm256_set1_epi8(low));
  const __m256i inside =
      _mm256_cmpeq_epi8(_mm256_min_epu8(distance, _mm256_set1_epi8(width)), distance);
  return static_cast<uint32_t>(_mm256_movemask_epi8(inside));
}

inline uint64_t join(uint32_t low, uint32_t high) { return low | (uint64_t{high} << 32); }

inline void classify(const unsigned char* block, BlockClasses& classes, uint64_t& blank,
                     uint64_t& apostrophe) {
  const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(block));
  const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(block + 32));
  const __m256i to_lower = _mm256_set1_epi8(0x20);
  // Setting bit 0x20 maps only A to Z onto a to z; a byte of 0x80 or above keeps its top bit.
  classes.letter = join(in_range(_mm256_or_si256(low, to_lower), 'a', 25),
                        in_range(_mm256_or_si256(high, to_lower), 'a', 25));
  classes.number = join(in_range(low, '0', 9), in_range(high, '0', 9));
  blank = join(in_range(low, ' ', 0), in_range(high, ' ', 0));
  classes.space = blank | join(in_range(low, '\t', 4), in_range(high, '\t', 4));
  apostrophe = join(in_range(low, '\'', 0), in_range(high, '\'', 0));
  classes.non_ascii = join(static_cast<uint32_t>(_mm256_movemask_epi8(low)),
                           static_cast<uint32_t>(_mm256_movemask_epi8(high)));
  classes.other = ~(classes.letter | classes.number | classes.space | classes.non_ascii);
}

}  // namespace

size_t scan_words_avx2(WordScan& scan, uint32_t* starts) {
  return scan_words<unicode_class>(scan, starts, classify);
}

size_t scan_tokenizers_words_avx2(WordScan& scan, uint32_t* starts) {
  return scan_words<tokenizers_class>(scan, starts, classify);
}

}  // namespace meg::tokenizer::fast
