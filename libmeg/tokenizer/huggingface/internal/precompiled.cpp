#include "libmeg/tokenizer/huggingface/internal/precompiled.h"

#include <utf8proc.h>

#include <string>
#include <utility>

#include "libmeg/text/utf8.h"
#include "libmeg/tokenizer/internal/base64.h"
#include "libmeg/tokenizer/sentencepiece/internal/charsmap.h"

namespace meg::tokenizer {
namespace {

using sentencepiece::Charsmap;

/// Graphemes of so many bytes are looked up character by character.
constexpr size_t kLongGrapheme = 6;

/// Bytes of the first grapheme of a text that is not empty.
size_t grapheme_size(std::string_view text) {
  text::DecodedCodePoint last = text::decode_code_point(text);
  size_t size = last.size;
  utf8proc_int32_t state = 0;
  while (size < text.size()) {
    const text::DecodedCodePoint next = text::decode_code_point(text.substr(size));
    if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(last.code_point),
                                         static_cast<utf8proc_int32_t>(next.code_point), &state)) {
      break;
    }
    size += next.size;
    last = next;
  }
  return size;
}

class Precompiled : public Normalizer {
 public:
  explicit Precompiled(Charsmap rules) : rules_(std::move(rules)) {}

  Status apply(std::string& text, bool& front_gone) const override {
    std::string changed;
    changed.reserve(text.size());
    for (std::string_view rest = text; !rest.empty();) {
      const bool is_front = rest.size() == text.size();
      const std::string_view grapheme = rest.substr(0, grapheme_size(rest));
      rest.remove_prefix(grapheme.size());
      if (grapheme.size() >= kLongGrapheme || !append_replacement(grapheme, changed)) {
        append_characters(grapheme, changed);
      }
      if (is_front && changed.empty()) front_gone = true;
    }
    text = std::move(changed);
    return {};
  }

 private:
  /// By the rule of the shortest sequence that `part` begins with; false where there is none.
  bool append_replacement(std::string_view part, std::string& changed) const {
    const auto rule = rules_.find_shortest(part);
    if (rule) changed += rule->replacement;
    return rule.has_value();
  }

  void append_characters(std::string_view text, std::string& changed) const {
    while (!text.empty()) {
      const std::string_view character = text.substr(0, text::decode_code_point(text).size);
      if (!append_replacement(character, changed)) changed += character;
      text.remove_prefix(character.size());
    }
  }

  const Charsmap rules_;
};

}  // namespace

Result<std::unique_ptr<Normalizer>> read_precompiled(const JsonPart& part) {
  MEG_RETURN_IF_ERROR(part.allow_only({"type", "precompiled_charsmap"}));
  MEG_ASSIGN_OR_RETURN(const JsonPart charsmap, part.member("precompiled_charsmap"));
  MEG_ASSIGN_OR_RETURN(const std::string_view text, charsmap.text());
  const std::optional<std::string> bytes = decode_base64(text);
  if (!bytes) return charsmap.corrupt("base64");
  auto rules = Charsmap::parse(*bytes);
  if (!rules) return rules.error().with_prefix(charsmap.place());
  return std::unique_ptr<Normalizer>(std::make_unique<Precompiled>(*std::move(rules)));
}

}  // namespace meg::tokenizer
