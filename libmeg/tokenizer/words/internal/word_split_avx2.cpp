#include "libmeg/tokenizer/words/internal/byte_block_avx2.h"
#include "libmeg/tokenizer/words/internal/word_split_impl.h"

namespace meg::tokenizer::fast {

size_t scan_split_avx2(WordScan& scan, uint32_t* starts) {
  return scan_split<ByteBlock>(scan, starts);
}

}  // namespace meg::tokenizer::fast
