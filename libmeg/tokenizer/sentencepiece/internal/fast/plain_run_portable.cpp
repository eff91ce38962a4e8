#include "libmeg/tokenizer/bpe/internal/fast/byte_block_portable.h"
#include "libmeg/tokenizer/sentencepiece/internal/fast/plain_run_impl.h"

namespace meg::tokenizer::sentencepiece::fast {

size_t plain_run_portable(const PlainCharacters& plain, const char* at, const char* end,
                          bool collapses, bool after_space) {
  return plain_run_of<tokenizer::fast::ByteBlock>(plain, at, end, collapses, after_space);
}

}  // namespace meg::tokenizer::sentencepiece::fast
