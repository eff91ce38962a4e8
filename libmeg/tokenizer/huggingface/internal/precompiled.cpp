#include "libmeg/tokenizer/huggingface/internal/precompiled.h"

#include <utf8proc.h>

#include <string>
#include <utility>

#include "libmeg/text/utf8.h"
#include "libmeg/tokenizer/internal/base64.h"
#include "libmeg/tokenizer/internal/grapheme_class.h"
#include "libmeg/tokenizer/sentencepiece/internal/charsmap.h"

namespace meg::tokenizer {
namespace {

using sentencepiece::Charsmap;

/// Graphemes of so many bytes are looked up character by character.
constexpr size_t kLongGrapheme = 6;

/// A code point that utf8proc joins with others as tokenizers joins `code_point`, whose Unicode
/// version may be another one.
utf8proc_int32_t stand_in(char32_t code_point, GraphemeClass grapheme_class) {
  constexpr utf8proc_int32_t kMark = 0x301;
  constexpr utf8proc_int32_t kPrepended = 0x600;
  const auto same = static_cast<utf8proc_int32_t>(code_point);
  const auto known = utf8proc_get_property(same)->boundclass;
  const bool joins = known == UTF8PROC_BOUNDCLASS_EXTEND || known == UTF8PROC_BOUNDCLASS_ZWJ ||
                     known == UTF8PROC_BOUNDCLASS_SPACINGMARK;
  const bool is_prepended = known == UTF8PROC_BOUNDCLASS_PREPEND;
  if (grapheme_class.has(GraphemeClass::kJoins)) return joins ? same : kMark;
  if (grapheme_class.has(GraphemeClass::kPrepended)) return is_prepended ? same : kPrepended;
  return joins || is_prepended ? 'x' : same;
}

/// Follows the characters of a text to where its first grapheme ends.
class GraphemeEnd {
 public:
  explicit GraphemeEnd(char32_t first) { is_before(first); }

  /// Whether the grapheme ends before the next character.
  bool is_before(char32_t next) {
    const GraphemeClass grapheme_class = tokenizer::grapheme_class(next);
    const utf8proc_int32_t next_stand_in = stand_in(next, grapheme_class);
    const bool is_break =
        last_ != kNone && utf8proc_grapheme_break_stateful(last_, next_stand_in, &state_);
    const bool is_conjunct =
        conjunct_ == Conjunct::kLinked && grapheme_class.has(GraphemeClass::kConsonant);
    last_ = next_stand_in;
    follow_conjunct(grapheme_class);
    return is_break && !is_conjunct;
  }

 private:
  static constexpr utf8proc_int32_t kNone = -1;

  // A consonant, and after it a linker, with others of a conjunct around it.
  enum class Conjunct { kNone, kBegun, kLinked };

  void follow_conjunct(GraphemeClass next) {
    if (next.has(GraphemeClass::kConsonant)) {
      conjunct_ = Conjunct::kBegun;
    } else if (!next.has(GraphemeClass::kConjunct)) {
      conjunct_ = Conjunct::kNone;
    } else if (next.has(GraphemeClass::kLinker) && conjunct_ == Conjunct::kBegun) {
      conjunct_ = Conjunct::kLinked;
    }
  }

  utf8proc_int32_t last_ = kNone;
  utf8proc_int32_t state_ = 0;
  Conjunct conjunct_ = Conjunct::kNone;
};

/// Bytes of the first grapheme of a text that is not empty.
size_t grapheme_size(std::string_view text) {
  const text::DecodedCodePoint first = text::decode_code_point(text);
  GraphemeEnd end(first.code_point);
  size_t size = first.size;
  while (size < text.size()) {
    const text::DecodedCodePoint next = text::decode_code_point(text.substr(size));
    if (end.is_before(next.code_point)) break;
    size += next.size;
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
  /// Tells from which characters those of the changed text stem, counted as in tokenizers: one by
  /// one, so that a text without its first character begins there all the same.
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

  /// Applies the rule of the shortest sequence that `part` begins with; false where there is none.
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
