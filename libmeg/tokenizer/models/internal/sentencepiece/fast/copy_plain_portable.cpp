#include "libmeg/tokenizer/models/internal/sentencepiece/fast/copy_plain_impl.h"
#include "libmeg/tokenizer/words/internal/byte_block_portable.h"

namespace meg::tokenizer::sentencepiece::fast {

void copy_plain_portable(const PlainCharacters& plain, const char* end, bool collapses,
                         NormalizingPlace& place) {
  copy_plain_by<tokenizer::fast::ByteBlock>(plain, end, collapses, place);
}

}  // namespace meg::tokenizer::sentencepiece::fast
