#include "libmeg/tokenizer/huggingface/internal/unicode_form.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/bytes.h"
#include "libmeg/text/text_padding.h"
#include "libmeg/text/utf8.h"
#include "libmeg/tokenizer/internal/normalization_class.h"

namespace meg::tokenizer {
namespace {

/// The first character of valid UTF-8; most have up to three bytes.
inline text::DecodedCodePoint first_character(std::string_view text) {
  const auto bits = [text](size_t at, unsigned mask) {
    return static_cast<char32_t>(static_cast<unsigned char>(text[at]) & mask);
  };
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xE0 && text.size() > 1) return {bits(0, 0x1F) << 6 | bits(1, 0x3F), 2};
  if (lead < 0xF0 && text.size() > 2) {
    return {bits(0, 0x0F) << 12 | bits(1, 0x3F) << 6 | bits(2, 0x3F), 3};
  }
  return text::decode_code_point(text);
}

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

/// The characters that a normalization form leaves as they are, and before which it can be applied
/// to the parts of a text, whatever stands beside them.
class StableCharacters {
 public:
  explicit StableCharacters(utf8proc_option_t options) : bits_(kCodePoints / 64, ~uint64_t{0}) {
    const bool composes = (options & UTF8PROC_COMPOSE) != 0;
    for (char32_t c = 0; c < kCodePoints; ++c) {
      if (!takes_part_in_normalization(c)) continue;
      std::string text;
      text::append_code_point(c, text);
      const auto* const property = utf8proc_get_property(static_cast<utf8proc_int32_t>(c));
      if (property->combining_class != 0 || mapped(text, options) != text) clear(c);
      // What is not the first of a decomposition composes with what stands before it.
      if (!composes) continue;
      const std::string decomposed = mapped(text, kDecompose);
      for (size_t at = text::decode_code_point(decomposed).size; at < decomposed.size();) {
        const auto next = text::decode_code_point(std::string_view(decomposed).substr(at));
        clear(next.code_point);
        at += next.size;
      }
    }
  }

  /// Those of form(...), which are found once.
  static const StableCharacters& of(utf8proc_option_t options) {
    const bool compatible = (options & UTF8PROC_COMPAT) != 0;
    if ((options & UTF8PROC_COMPOSE) != 0) return compatible ? of<true, true>() : of<true, false>();
    return compatible ? of<false, true>() : of<false, false>();
  }

  static utf8proc_option_t form(bool composed, bool compatible) {
    return static_cast<utf8proc_option_t>(UTF8PROC_STABLE |
                                          (composed ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) |
                                          (compatible ? UTF8PROC_COMPAT : 0));
  }

  /// Also for text::kInvalidCodePoint.
  bool has(char32_t c) const { return c >= kCodePoints || (bits_[c / 64] >> (c % 64) & 1) != 0; }

 private:
  template <bool composed, bool compatible>
  static const StableCharacters& of() {
    static const StableCharacters kStable(form(composed, compatible));
    return kStable;
  }

  static constexpr char32_t kCodePoints = 0x110000;
  static constexpr auto kDecompose =
      static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE);

  void clear(char32_t c) { bits_[c / 64] &= ~(uint64_t{1} << (c % 64)); }

  std::vector<uint64_t> bits_;
};

/// NFC, NFD, NFKC or NFKD. Characters that tokenizers' tables do not know stay and separate what is
/// around them.
class UnicodeForm : public Normalizer {
 public:
  UnicodeForm(bool composed, bool compatible)
      : options_(StableCharacters::form(composed, compatible)),
        stable_(StableCharacters::of(options_)) {}

  bool keeps(std::string_view text) const override {
    return unstable_from(text, 0, stable_).at == text.size();
  }

  Status apply(std::string& text, size_t& front) const override {
    const size_t characters = characters_of_front(text, front);
    text = changed(text, options_);
    front = size_of_characters(text, characters);
    return {};
  }

 private:
  struct Decomposed {
    char32_t code_point;
    bool is_more;  // not the first of its character
  };

  static int combining_class(char32_t c) {
    return utf8proc_get_property(static_cast<utf8proc_int32_t>(c))->combining_class;
  }

  /// How many characters of the changed text stem from the first `front` bytes. tokenizers counts:
  /// the first characters of decompositions stem from one character of the text after another, in
  /// the order in which they come to stand, and the others from the one before them.
  size_t characters_of_front(std::string_view text, size_t front) const {
    if (front == 0) return 0;
    const auto decomposing =
        static_cast<utf8proc_option_t>((options_ & ~UTF8PROC_COMPOSE) | UTF8PROC_DECOMPOSE);
    std::vector<Decomposed> all;
    for (size_t at = 0; at < text.size();) {
      const text::DecodedCodePoint next = text::decode_code_point(text.substr(at));
      // Marks after the front may come to stand within it.
      if (at >= front && combining_class(next.code_point) == 0) break;
      const std::string made = changed(text.substr(at, next.size), decomposing);
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
    return count_characters(changed(decomposed, options_));
  }

  struct Unstable {
    size_t at;      // the size of the text if there is none
    size_t before;  // where the stable character before it begins; `at` if there is none
  };

  /// The first unstable character from `from` on, where a character begins.
  static Unstable unstable_from(std::string_view text, size_t from,
                                const StableCharacters& stable) {
    size_t before = from;
    for (size_t at = from; at < text.size();) {
      // Eight ASCII characters at once, which are stable in every form.
      while (text.size() - at > 8 && (load_le<uint64_t>(&text[at]) & kNoAscii) == 0) {
        before = at + 7;
        at += 8;
      }
      const text::DecodedCodePoint next = first_character(text.substr(at));
      if (!stable.has(next.code_point)) return {at, before};
      before = at;
      at += next.size;
    }
    return {text.size(), before};
  }

  /// Normalizes only what is around unstable characters. Characters that the tables of tokenizers
  /// do not know are stable, although utf8proc, which has newer tables, would change them.
  static std::string changed(std::string_view whole, utf8proc_option_t options) {
    const StableCharacters& stable = StableCharacters::of(options);
    std::string changed;
    changed.reserve(whole.size() + text::kTextPadding);  // which encoders append
    size_t copied = 0;
    while (true) {
      const Unstable next = unstable_from(whole, copied, stable);
      if (next.at == whole.size()) break;
      // The character before it may compose with it, unless the tables do not know that.
      const char32_t starter = first_character(whole.substr(next.before)).code_point;
      const bool may_compose =
          starter != text::kInvalidCodePoint && takes_part_in_normalization(starter);
      const size_t begin = may_compose ? next.before : next.at;
      size_t end = next.at;
      while (end < whole.size()) {
        const text::DecodedCodePoint c = first_character(whole.substr(end));
        if (stable.has(c.code_point)) break;
        end += c.size;
      }
      changed.append(whole.substr(copied, begin - copied));
      changed.append(mapped(whole.substr(begin, end - begin), options));
      copied = end;
    }
    return changed.append(whole.substr(copied));
  }

  static constexpr uint64_t kNoAscii = 0x8080808080808080u;

  const utf8proc_option_t options_;
  const StableCharacters& stable_;
};

}  // namespace

std::unique_ptr<Normalizer> new_unicode_form(bool composed, bool compatible) {
  return std::make_unique<UnicodeForm>(composed, compatible);
}

}  // namespace meg::tokenizer
