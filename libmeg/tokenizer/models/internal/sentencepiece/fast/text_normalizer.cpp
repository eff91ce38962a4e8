#include "libmeg/tokenizer/models/internal/sentencepiece/fast/text_normalizer.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "libmeg/text/text_padding.h"
#include "libmeg/text/utf8.h"
#include "libmeg/tokenizer/words/internal/vector_functions.h"

namespace meg::tokenizer::sentencepiece::fast {

PlainCharacters plain_characters(const Model& model) {
  std::vector<uint8_t> rules = model.charsmap().character_rules();
  const PieceTrie& symbols = model.user_symbols();
  std::string bytes;
  for (char32_t character = 0; !symbols.empty() && character < rules.size(); ++character) {
    bytes.clear();
    text::append_code_point(character, bytes);
    const auto lead = static_cast<unsigned char>(bytes[0]);
    if (symbols.first(lead) != PieceTrie::kNoNode) rules[character] |= PlainCharacters::kChanges;
  }
  // It becomes a space in SpaceForm.
  if (model.file().normalizer.escape_whitespaces) {
    rules[text::decode_code_point(kSpaceSymbol).code_point] |= PlainCharacters::kChanges;
  }
  constexpr std::string_view kControls = "\t\n\r";
  const bool has_space_controls =
      std::all_of(kControls.begin(), kControls.end(), [&](char control) {
        return model.charsmap().becomes_space(control) &&
               symbols.first(static_cast<unsigned char>(control)) == PieceTrie::kNoNode;
      });
  return {std::move(rules), has_space_controls};
}

TextNormalizer::TextNormalizer(const Model& model, const PlainCharacters& plain)
    : model_(model),
      spec_(model.file().normalizer),
      form_(spec_.escape_whitespaces),
      plain_(plain),
      copy_plain_(tokenizer::fast::vector_functions(best_instruction_set()).copy_plain),
      identity_(spec_.precompiled_charsmap.empty() && model.user_symbols().empty()) {}

std::string_view TextNormalizer::normalize(std::string_view text) {
  out_ = buffer_.data();
  if (spec_.remove_extra_whitespaces) text = without_leading_spaces(text);
  if (text.empty()) return {};
  make_room(text.size());
  const bool suffix = model_.file().treat_whitespace_as_suffix;
  if (spec_.add_dummy_prefix && !suffix) put(' ');
  after_space_ = spec_.remove_extra_whitespaces;
  if (identity_ && !spec_.remove_extra_whitespaces) {
    put(text);
  } else {
    normalize_rest(text);
  }
  if (spec_.remove_extra_whitespaces) {
    while (out_ > buffer_.data() && out_[-1] == ' ') --out_;
  }
  if (spec_.add_dummy_prefix && suffix) put(' ');
  // The sentinel at which WordSplit's search for a space ends.
  *out_ = ' ';
  return {buffer_.data(), static_cast<size_t>(out_ - buffer_.data())};
}

NormalizingStep TextNormalizer::step(std::string_view text) const {
  return first_step(model_.charsmap(), model_.user_symbols(), text);
}

std::string_view TextNormalizer::without_leading_spaces(std::string_view text) const {
  while (!text.empty()) {
    const NormalizingStep first = step(text);
    if (first.normalized != " ") break;
    text.remove_prefix(first.size);
  }
  return text;
}

/// Room for so many bytes more, spaces around them and the padding.
void TextNormalizer::make_room(size_t bytes) {
  const auto used = static_cast<size_t>(out_ - buffer_.data());
  const size_t needed = used + bytes + text::kTextPadding + 2;
  if (needed <= buffer_.size()) return;
  buffer_.resize(std::max(needed, buffer_.size() + buffer_.size() / 2));
  out_ = buffer_.data() + used;
}

/// Appends normalized bytes in SpaceForm.
void TextNormalizer::put(std::string_view normalized) {
  while (form_.escaped() && normalized.size() >= kSpaceSymbol.size()) {
    const size_t symbol = normalized.find(kSpaceSymbol);
    if (symbol == std::string_view::npos) break;
    std::memcpy(out_, normalized.data(), symbol);
    out_ += symbol;
    put(' ');
    normalized.remove_prefix(symbol + kSpaceSymbol.size());
  }
  std::memcpy(out_, normalized.data(), normalized.size());
  out_ += normalized.size();
}

void TextNormalizer::normalize_rest(std::string_view text) {
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    tokenizer::fast::NormalizingPlace place = {at, out_, after_space_};
    copy_plain_(plain_, end, spec_.remove_extra_whitespaces, place);
    at = place.at;
    out_ = place.out;
    after_space_ = place.after_space;
    if (at == end) break;
    const NormalizingStep next = step({at, end});
    at += next.size;
    // Asked for all that may come, so that plain characters are copied without a check.
    make_room(next.normalized.size() + static_cast<size_t>(end - at));
    put_step(next);
  }
}

void TextNormalizer::put_step(const NormalizingStep& step) {
  std::string_view normalized = step.normalized;
  while (after_space_ && normalized.starts_with(' ')) normalized.remove_prefix(1);
  if (normalized.empty()) return;
  put(normalized);
  after_space_ = spec_.remove_extra_whitespaces && normalized.ends_with(' ');
}

}  // namespace meg::tokenizer::sentencepiece::fast
