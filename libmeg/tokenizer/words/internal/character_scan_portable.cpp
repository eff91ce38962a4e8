#include "libmeg/tokenizer/words/internal/byte_block_portable.h"
#include "libmeg/tokenizer/words/internal/character_scan_impl.h"

namespace meg::tokenizer {

size_t scan_characters_portable(const CharacterSet& set, std::string_view text, size_t at) {
  return scan_characters<fast::ByteBlock>(set, text, at);
}

}  // namespace meg::tokenizer
