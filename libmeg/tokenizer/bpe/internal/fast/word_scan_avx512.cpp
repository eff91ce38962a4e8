#include <immintrin.h>

#include "libmeg/tokenizer/bpe/internal/fast/word_scan_impl.h"

namespace meg::tokenizer::fast {
namespace {

/// The bytes of `values - low` that lie in 0..width.
inline uint64_t in_range(__m512i values, char low, char width) {
  return _mm512_cmple_epu8_mask(_mm512_sub_epi8(values, _mm512_set1_epi8(low)),
                                _mm512_set1_epi8(width));
}

inline void classify(const unsigned char* block, BlockClasses& classes, uint64_t& blank,
                     uint64_t& apostrophe) {
  const __m512i bytes = _mm512_loadu_si512(block);
  classes.letter = in_range(_mm512_or_si512(bytes, _mm512_set1_epi8(0x20)), 'a', 25);
  classes.number = in_range(bytes, '0', 9);
  blank = _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8(' '));
  classes.space = blank | in_range(bytes, '\t', 4);
  apostrophe = _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8('\''));
  classes.non_ascii = _mm512_movepi8_mask(bytes);
  classes.other = ~(classes.letter | classes.number | classes.space | classes.non_ascii);
}

}  // namespace

size_t scan_words_avx512(WordScan& scan, uint32_t* starts) {
  return scan_words<unicode_class>(scan, starts, classify);
}

size_t scan_tokenizers_words_avx512(WordScan& scan, uint32_t* starts) {
  return scan_words<tokenizers_class>(scan, starts, classify);
}

}  // namespace meg::tokenizer::fast
