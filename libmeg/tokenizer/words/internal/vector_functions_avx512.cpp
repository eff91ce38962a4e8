#include "libmeg/tokenizer/words/internal/byte_block_avx512.h"
#include "libmeg/tokenizer/words/internal/prefetch_words_avx512.h"
#include "libmeg/tokenizer/words/internal/vector_functions_impl.h"

namespace meg::tokenizer::fast {

constinit const VectorFunctions kAvx512Functions = functions_of<ByteBlock>(prefetch_words_avx512);

}  // namespace meg::tokenizer::fast
