#include "libmeg/tokenizer/steps/internal/precompiled.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "libmeg/text/utf8.h"
#include "libmeg/tokenizer/json/internal/base64.h"
#include "libmeg/tokenizer/models/internal/sentencepiece/charsmap.h"
#include "libmeg/tokenizer/unicode/internal/grapheme_class.h"
#include "libmeg/tokenizer/words/internal/plain_characters.h"

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

/// Whether the character is a grapheme of its own beside others of which this is true.
bool is_grapheme(char32_t code_point) {
  if (tokenizer::grapheme_class(code_point).bits != 0) return false;
  const auto known = utf8proc_get_property(static_cast<utf8proc_int32_t>(code_point))->boundclass;
  return known == UTF8PROC_BOUNDCLASS_OTHER || known == UTF8PROC_BOUNDCLASS_LV ||
         known == UTF8PROC_BOUNDCLASS_LVT;
}

class Precompiled : public Normalizer {
 public:
  explicit Precompiled(Charsmap rules) : rules_(std::move(rules)) {
    std::vector<uint8_t> character_rules = rules_.character_rules();
    for (char32_t c = 0; c < character_rules.size(); ++c) {
      is_alone_.push_back((character_rules[c] & fast::PlainCharacters::kChanges) == 0 &&
                          is_grapheme(c));
    }
  }

  Status apply(std::string& text, size_t& front) const override {
    Origins origins(count_characters(std::string_view(text).substr(0, front)));
    std::string changed;
    changed.reserve(text.size());
    for (std::string_view rest = text; !rest.empty();) {
      const Run run = run_alone(rest);
      if (run.size > 0) {
        changed += rest.substr(0, run.size);
        origins.keep(run.characters);
        rest.remove_prefix(run.size);
        continue;
      }
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

    /// replace(1, 1), so many times.
    void keep(size_t count) {
      front_ += std::min(count, old_front_ - std::min(consumed_, old_front_));
      consumed_ += count;
      written_ = written_ || count > 0;
    }

    size_t front() const { return front_; }

   private:
    const size_t old_front_;
    size_t consumed_ = 0;
    size_t front_ = 0;
    bool written_ = false;
  };

  struct Run {
    size_t size = 0, characters = 0;
  };

  /// The characters at the beginning of text that are graphemes without a rule. The last one is
  /// left out where others follow, which it may belong together with.
  Run run_alone(std::string_view text) const {
    Run run;
    size_t last = 0;
    size_t size = 0;
    while (size < text.size()) {
      const auto byte = static_cast<unsigned char>(text[size]);
      const text::DecodedCodePoint next = byte < 0x80 ? text::DecodedCodePoint{byte, 1}
                                                      : text::decode_code_point(text.substr(size));
      if (next.code_point >= is_alone_.size() || !is_alone_[next.code_point]) break;
      last = next.size;
      size += last;
      ++run.characters;
    }
    run.size = size;
    if (size == text.size() || size == 0) return run;
    return {size - last, run.characters - 1};
  }

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
  std::vector<uint8_t> is_alone_;  // by code point, below Charsmap::kRuledCharacters
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
