#include "libmeg/tokenizer/words/internal/plain_characters.h"

#include <algorithm>
#include <utility>

namespace meg::tokenizer::fast {

PlainCharacters::PlainCharacters(std::vector<uint8_t> rules, bool has_space_controls)
    : rules_(std::move(rules)), has_space_controls_(has_space_controls) {
  const auto is_alone = [](uint8_t rule) { return (rule & (kChanges | kContinues)) == 0; };
  const auto are_alone = [&](char32_t first, char32_t last) {
    return std::all_of(&rules_[first], &rules_[last] + 1, is_alone);
  };
  has_graphic_ = are_alone(' ', '~');
  has_ideographs_ = are_alone(0x4000, 0x9FFF) && are_alone(0xB000, 0xCFFF);
  const auto is_plain = [&](char32_t character) { return is_alone(rules_[character]); };
  two_byte_set_ = fast::two_byte_set(is_plain);
  three_byte_set_ = fast::three_byte_set(is_plain);
}

}  // namespace meg::tokenizer::fast
