#include "libmeg/tokenizer/sentencepiece/internal/fast/plain_characters.h"

#include <algorithm>
#include <string>

#include "libmeg/text/utf8.h"

namespace meg::tokenizer::sentencepiece::fast {

PlainCharacters::PlainCharacters(const Model& model) : rules_(model.charsmap().character_rules()) {
  const PieceTrie& symbols = model.user_symbols();
  std::string bytes;
  for (char32_t character = 0; !symbols.empty() && character < rules_.size(); ++character) {
    bytes.clear();
    text::append_code_point(character, bytes);
    const auto lead = static_cast<unsigned char>(bytes[0]);
    if (symbols.first(lead) != PieceTrie::kNoNode) rules_[character] |= Charsmap::kChanges;
  }
  // It becomes a space in SpaceForm.
  if (model.file().normalizer.escape_whitespaces) {
    rules_[text::decode_code_point(kSpaceSymbol).code_point] |= Charsmap::kChanges;
  }
  graphic_is_plain_ = std::none_of(rules_.begin() + ' ', rules_.begin() + 0x7F,
                                   [](uint8_t rules) { return (rules & Charsmap::kChanges) != 0; });
}

}  // namespace meg::tokenizer::sentencepiece::fast
