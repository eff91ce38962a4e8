#include "libmeg/tokenizer/words/internal/byte_block_avx2.h"
#include "libmeg/tokenizer/words/internal/word_scan_impl.h"

namespace meg::tokenizer::fast {

size_t scan_words_avx2(WordScan& scan, uint32_t* starts) {
  return scan_words<unicode_class, ByteBlock>(scan, starts);
}

size_t scan_tokenizers_words_avx2(WordScan& scan, uint32_t* starts) {
  return scan_words<tokenizers_class, ByteBlock>(scan, starts);
}

}  // namespace meg::tokenizer::fast
