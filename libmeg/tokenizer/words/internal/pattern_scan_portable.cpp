#include "libmeg/tokenizer/words/internal/byte_block_portable.h"
#include "libmeg/tokenizer/words/internal/pattern_scanners.h"
#include "libmeg/tokenizer/words/internal/pattern_scanners_impl.h"

namespace meg::tokenizer {

fast::WordScanner pattern_scanner_portable(size_t form) {
  return scanner_of_form<fast::ByteBlock>(form);
}

}  // namespace meg::tokenizer
