#include "libmeg/tokenizer/steps/internal/unicode_form.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/cpu.h"
#include "libmeg/text/text_padding.h"
#include "libmeg/text/utf8.h"
#include "libmeg/tokenizer/unicode/internal/normalization_class.h"
#include "libmeg/tokenizer/words/internal/character_scan.h"
#include "libmeg/tokenizer/words/internal/vector_functions.h"

namespace meg::tokenizer {
namespace {

/// The result of utf8proc_map.
std::string mapped(std::string_view text, utf8proc_option_t options) {
  utf8proc_uint8_t* made = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &made, options);
  if (size < 0) throw std::bad_alloc();  // all else fails for what is not UTF-8 alone
  std::string result(reinterpret_cast<const char*>(made), static_cast<size_t>(size));
  std::free(made);
  return result;
}

int combining_class(char32_t c) {
  return utf8proc_get_property(static_cast<utf8proc_int32_t>(c))->combining_class;
}

/// A normalization form of texts. Characters that tokenizers' tables do not know stay and separate
/// what is around them.
class Form {
 public:
  /// One for each of the four forms, made when it is first asked for.
  static const Form& of(bool composed, bool compatible) {
    if (composed) return compatible ? of<true, true>() : of<true, false>();
    return compatible ? of<false, true>() : of<false, false>();
  }

  bool keeps(std::string_view text) const { return unstable_from(text, 0) == text.size(); }

  /// Normalizes only what is around unstable characters.
  std::string apply(std::string_view whole) const {
    std::string changed;
    changed.reserve(whole.size() + text::kTextPadding);  // which encoders append
    size_t copied = 0;
    while (true) {
      const size_t unstable = unstable_from(whole, copied);
      if (unstable == whole.size()) break;
      const size_t begin = start_with_starter(whole, copied, unstable);
      size_t end = unstable;
      while (end < whole.size()) {
        const text::DecodedCodePoint c = text::decode_code_point(whole.substr(end));
        if (stable_.has(c.code_point)) break;
        end += c.size;
      }
      changed.append(whole.substr(copied, begin - copied));
      changed.append(mapped(whole.substr(begin, end - begin), options_));
      copied = end;
    }
    return changed.append(whole.substr(copied));
  }

 private:
  explicit Form(utf8proc_option_t options)
      : options_(options),
        kinds_(kinds_in(options)),
        stable_([this](char32_t c) { return kinds_[c] == 0; }) {}

  template <bool composed, bool compatible>
  static const Form& of() {
    static const Form kForm(static_cast<utf8proc_option_t>(
        UTF8PROC_STABLE | (composed ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) |
        (compatible ? UTF8PROC_COMPAT : 0)));
    return kForm;
  }

  // Kinds of characters, combined with |. A mark alone stays where none before it has a higher
  // class.
  static constexpr uint8_t kMark = 1;     // has a combining class
  static constexpr uint8_t kChanges = 2;  // or joins the character before it

  /// By code point.
  static std::vector<uint8_t> kinds_in(utf8proc_option_t options) {
    constexpr char32_t kCodePoints = 0x110000;
    constexpr auto kDecompose =
        static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE);
    std::vector<uint8_t> kinds(kCodePoints);
    for (char32_t c = 0; c < kCodePoints; ++c) {
      if (!takes_part_in_normalization(c)) continue;
      std::string text;
      text::append_code_point(c, text);
      if (combining_class(c) != 0) kinds[c] |= kMark;
      const bool changes = mapped(text, options) != text;
      if (changes) kinds[c] |= kChanges;
      // What is made by composing decomposes to what is joined, all but the first with what stands
      // before it.
      if (changes || (options & UTF8PROC_COMPOSE) == 0) continue;
      const std::string decomposed = mapped(text, kDecompose);
      for (size_t at = text::decode_code_point(decomposed).size; at < decomposed.size();) {
        const auto next = text::decode_code_point(std::string_view(decomposed).substr(at));
        kinds[next.code_point] |= kChanges;
        at += next.size;
      }
    }
    return kinds;
  }

  /// Where the first unstable characters that may change begin; the size of the text if there are
  /// none. from: where a character begins.
  size_t unstable_from(std::string_view text, size_t from) const {
    while (true) {
      const size_t at = scan_(stable_, text, from);
      if (at == text.size() || !skip_kept(text, at, from)) return at;
    }
  }

  /// Sets `end` to that of the unstable characters from `at` on. False if they may change.
  bool skip_kept(std::string_view text, size_t at, size_t& end) const {
    int last_class = 0;
    while (at < text.size()) {
      const text::DecodedCodePoint next = text::decode_code_point(text.substr(at));
      if (stable_.has(next.code_point)) break;
      if ((kinds_[next.code_point] & kChanges) != 0) return false;
      const int next_class = combining_class(next.code_point);
      if (next_class < last_class) return false;
      last_class = next_class;
      at += next.size;
    }
    end = at;
    return true;
  }

  /// The start of the character before `at`, unless that is before `from`, if it may compose with
  /// what begins at `at`; else `at`.
  static size_t start_with_starter(std::string_view text, size_t from, size_t at) {
    size_t before = at;
    while (before > from && (before == at || text::is_continuation_byte(text[before]))) --before;
    const char32_t starter = text::decode_code_point(text.substr(before)).code_point;
    const bool may_compose =
        starter != text::kInvalidCodePoint && takes_part_in_normalization(starter);
    return may_compose ? before : at;
  }

  const utf8proc_option_t options_;
  const std::vector<uint8_t> kinds_;  // by code point
  const CharacterSet stable_;  // no kind: they stay as they are, and a part may end before them
  const CharacterScan scan_ = fast::vector_functions(best_instruction_set()).scan_characters;
};

/// NFC, NFD, NFKC or NFKD.
class UnicodeForm : public Normalizer {
 public:
  UnicodeForm(bool composed, bool compatible)
      : compatible_(compatible), form_(Form::of(composed, compatible)) {}

  bool keeps(std::string_view text) const override { return form_.keeps(text); }

  Status apply(std::string& text, size_t& front) const override {
    const size_t characters = characters_of_front(text, front);
    text = form_.apply(text);
    front = size_of_characters(text, characters);
    return {};
  }

 private:
  struct Decomposed {
    char32_t code_point;
    bool is_more;  // not the first of its character
  };

  /// How many characters of the changed text stem from the first `front` bytes. tokenizers counts:
  /// the first characters of decompositions stem from one character of the text after another, in
  /// the order in which they come to stand, and the others from the one before them.
  size_t characters_of_front(std::string_view text, size_t front) const {
    if (front == 0) return 0;
    const Form& decomposing = Form::of(false, compatible_);
    std::vector<Decomposed> all;
    for (size_t at = 0; at < text.size();) {
      const text::DecodedCodePoint next = text::decode_code_point(text.substr(at));
      // Marks after the front may come to stand within it.
      if (at >= front && combining_class(next.code_point) == 0) break;
      const std::string made = decomposing.apply(text.substr(at, next.size));
      for (size_t i = 0; i < made.size();) {
        const text::DecodedCodePoint c = text::decode_code_point(std::string_view(made).substr(i));
        all.push_back({c.code_point, i > 0});
        i += c.size;
      }
      at += next.size;
    }
    const auto is_starter = [](const Decomposed& c) { return combining_class(c.code_point) == 0; };
    for (auto run = all.begin(); run != all.end();) {
      const auto end = std::find_if(run, all.end(), is_starter);
      std::stable_sort(run, end, [](const Decomposed& a, const Decomposed& b) {
        return combining_class(a.code_point) < combining_class(b.code_point);
      });
      run = end == all.end() ? end : end + 1;
    }
    size_t left = count_characters(text.substr(0, front));
    std::string decomposed;
    for (const Decomposed& c : all) {
      if (!c.is_more && left-- == 0) break;
      text::append_code_point(c.code_point, decomposed);
    }
    // What composes with a mark after it stays one character.
    return count_characters(form_.apply(decomposed));
  }

  const bool compatible_;
  const Form& form_;
};

}  // namespace

std::unique_ptr<Normalizer> new_unicode_form(bool composed, bool compatible) {
  return std::make_unique<UnicodeForm>(composed, compatible);
}

}  // namespace meg::tokenizer
