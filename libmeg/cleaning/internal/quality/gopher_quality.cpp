#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "libmeg/cleaning/internal/quality/quality_rules.h"
#include "libmeg/cleaning/internal/quality/quality_text.h"
#include "libmeg/cleaning/words/internal/english_tables.h"
#include "libmeg/text/ascii.h"
#include "libmeg/text/python_text.h"
#include "libmeg/text/utf8.h"

namespace meg::cleaning {
namespace {

bool all_have(std::string_view text, uint32_t flags) {
  while (!text.empty()) {
    const text::DecodedCodePoint next = text::decode_code_point(text);
    if ((character_flags(next.code_point) & flags) == 0) return false;
    text.remove_prefix(next.size);
  }
  return true;
}

/// str.count: occurrences that do not overlap.
int64_t count_of(std::string_view text, std::string_view part) {
  int64_t count = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size()))
    ++count;
  return count;
}

class GopherQuality : public Step {
 public:
  Result<std::string_view> run(Document& document) override {
    const std::string_view text = document.text();
    const std::vector<std::string_view>& words = document.words();
    const bool is_plain = text::is_ascii(text);
    int64_t count = 0, characters = 0, with_letter = 0;
    for (const std::string_view word : words) {
      // Most words begin with a letter of ASCII, which is no punctuation.
      const bool is_usual = text::is_ascii_letter(word.front());
      with_letter += is_usual || any_has(word, kLetter) ? 1 : 0;
      if (!is_usual && all_have(word, kPunctuation | kTerminal)) continue;
      ++count;
      characters += is_plain ? std::ssize(word) : count_characters(word);
    }
    if (count < 50) return std::string_view("gopher_short_doc");
    if (count > 100'000) return std::string_view("gopher_long_doc");
    const double length = ratio(characters, count);
    if (length < 3) return std::string_view("gopher_below_avg_threshold");
    if (length > 10) return std::string_view("gopher_above_avg_threshold");
    const int64_t all = std::ssize(words);
    if (ratio(count_of(text, "#"), all) > 0.1) return std::string_view("gopher_too_many_hashes");
    if (ratio(count_of(text, "...") + count_of(text, "\u2026"), all) > 0.1) {
      return std::string_view("gopher_too_many_ellipsis");
    }
    split_lines(text, lines_);
    int64_t bullets = 0, ellipses = 0;
    for (const std::string_view line : lines_) {
      const std::string_view inner = text::python_strip(line);
      bullets += inner.starts_with("\u2022") || inner.starts_with('-') ? 1 : 0;
      ellipses += inner.ends_with("...") || inner.ends_with("\u2026") ? 1 : 0;
    }
    if (ratio(bullets, std::ssize(lines_)) > 0.9)
      return std::string_view("gopher_too_many_bullets");
    if (ratio(ellipses, std::ssize(lines_)) > 0.3) {
      return std::string_view("gopher_too_many_end_ellipsis");
    }
    if (ratio(with_letter, all) < 0.8) return std::string_view("gopher_below_alpha_threshold");
    if (count_stop_words(words) < 2) return std::string_view("gopher_enough_stop_words");
    return std::string_view();
  }

 private:
  /// How many of them occur, as far as two are concerned.
  static int64_t count_stop_words(const std::vector<std::string_view>& words) {
    constexpr std::string_view kStopWords[] = {"the", "be",   "to",   "of",
                                               "and", "that", "have", "with"};
    std::string_view first;
    for (const std::string_view word : words) {
      if (word.size() > 4 || word == first) continue;
      if (std::find(std::begin(kStopWords), std::end(kStopWords), word) == std::end(kStopWords)) {
        continue;
      }
      if (!first.empty()) return 2;
      first = word;
    }
    return first.empty() ? 0 : 1;
  }

  std::vector<std::string_view> lines_;
};

}  // namespace

std::unique_ptr<Step> make_gopher_quality() { return std::make_unique<GopherQuality>(); }

}  // namespace meg::cleaning
