#include "libmeg/tokenizer/models/internal/sentencepiece/fast/plain_characters.h"

#include <algorithm>
#include <string>
#include <string_view>

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
  const auto is_alone = [](uint8_t rules) {
    return (rules & (Charsmap::kChanges | Charsmap::kContinues)) == 0;
  };
  const auto are_alone = [&](char32_t first, char32_t last) {
    return std::all_of(&rules_[first], &rules_[last] + 1, is_alone);
  };
  has_graphic_ = are_alone(' ', '~');
  has_ideographs_ = are_alone(0x4000, 0x9FFF) && are_alone(0xB000, 0xCFFF);
  constexpr std::string_view kControls = "\t\n\r";
  has_space_controls_ = std::all_of(kControls.begin(), kControls.end(), [&](char control) {
    return model.charsmap().becomes_space(control) &&
           symbols.first(static_cast<unsigned char>(control)) == PieceTrie::kNoNode;
  });
  const auto is_plain = [&](char32_t character) { return is_alone(rules_[character]); };
  two_byte_set_ = tokenizer::fast::two_byte_set(is_plain);
  three_byte_set_ = tokenizer::fast::three_byte_set(is_plain);
}

}  // namespace meg::tokenizer::sentencepiece::fast
