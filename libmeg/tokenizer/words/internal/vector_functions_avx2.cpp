#include "libmeg/tokenizer/words/internal/byte_block_avx2.h"
#include "libmeg/tokenizer/words/internal/vector_functions_impl.h"

namespace meg::tokenizer::fast {

constinit const VectorFunctions kAvx2Functions = functions_of<ByteBlock>();

}  // namespace meg::tokenizer::fast
