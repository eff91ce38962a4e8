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

  Status apply(std::string& text, size_t& front) const override {
    Origins origins(count_characters(std::string_view(text).substr(0, front)));
    std::string changed;
    changed.reserve(text.size());
    for (std::string_view rest = text; !rest.empty();) {
      const std::string_view grapheme = rest.substr(0, grapheme_size(rest));
      rest.remove_prefix(grapheme.size());
      if (grapheme.size() >= kLongGrapheme || !append_replacement(grapheme, changed, origins)) {
        append_characters(grapheme, changed, origins);
      }
    }
    front = size_of_characters(changed, origins.front());
    text = std::move(changed);
    return {};
  }

 private:
  /// From which characters those of the changed text stem, as tokenizers counts them: one by one,
  /// so that a text without its first character begins there all the same.
  class Origins {
   public:
    explicit Origins(size_t old_front) : old_front_(old_front) {}

    void replace(size_t old_count, size_t new_count) {
      for (size_t i = 0; i < new_count; ++i) {
        const bool is_more = i >= old_count;
        const size_t origin = is_more && consumed_ > 0 ? consumed_ - 1 : consumed_;
        if (!is_more) ++consumed_;
        if (origin < old_front_) ++front_;
      }
      written_ = written_ || new_count > 0;
      // A character that is left out goes with the one before it, where there is one.
      if (written_ && old_count > new_count) consumed_ += old_count - new_count;
    }

    size_t front() const { return front_; }

   private:
    const size_t old_front_;
    size_t consumed_ = 0;
    size_t front_ = 0;
    bool written_ = false;
  };

  /// By the rule of the shortest sequence that `part` begins with; false where there is none.
  bool append_replacement(std::string_view part, std::string& changed, Origins& origins) const {
    const auto rule = rules_.find_shortest(part);
    if (!rule) return false;
    changed += rule->replacement;
    origins.replace(count_characters(part), count_characters(rule->replacement));
    return true;
  }

  void append_characters(std::string_view text, std::string& changed, Origins& origins) const {
    while (!text.empty()) {
      const std::string_view character = text.substr(0, text::decode_code_point(text).size);
      if (!append_replacement(character, changed, origins)) {
        changed += character;
        origins.replace(1, 1);
      }
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
