#include "libmeg/tokenizer/words/internal/byte_block_portable.h"
#include "libmeg/tokenizer/words/internal/vector_functions_impl.h"

namespace meg::tokenizer::fast {

constinit const VectorFunctions kPortableFunctions = functions_of<ByteBlock>();

}  // namespace meg::tokenizer::fast
