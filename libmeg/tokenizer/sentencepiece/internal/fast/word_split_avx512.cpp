#include "libmeg/tokenizer/bpe/internal/fast/byte_block_avx512.h"
#include "libmeg/tokenizer/sentencepiece/internal/fast/word_split_impl.h"

namespace meg::tokenizer::sentencepiece::fast {

size_t scan_split_avx512(const WordSplit& split, tokenizer::fast::WordScan& scan,
                         uint32_t* starts) {
  return scan_split<tokenizer::fast::ByteBlock>(split, scan, starts);
}

}  // namespace meg::tokenizer::sentencepiece::fast
