#include "libmeg/cleaning/language/language_rule.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <unordered_map>
#include <utility>

#include "libmeg/text/utf8.h"

namespace meg::cleaning {
namespace {

constexpr size_t kNone = 0xff;

struct Language {
  std::string_view name;
  size_t script = kNone;
  bool has_words = false;
};

/// languages.txt.
struct Languages {
  Languages() {
    script_of.fill(static_cast<uint8_t>(kNone));
    std::string_view rest = languages_text();
    while (!rest.empty()) {
      std::string_view line = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(std::min(rest.size(), line.size() + 1));
      const std::string_view kind = take(line);
      if (kind == "script") {
        scripts.push_back(take(line));
        while (!line.empty()) add_range(take(line));
      } else if (kind == "language") {
        add_language(line);
      }
    }
  }

  static std::string_view take(std::string_view& line) {
    const std::string_view word = line.substr(0, line.find(' '));
    line.remove_prefix(std::min(line.size(), word.size() + 1));
    return word;
  }

  void add_range(std::string_view range) {
    const auto number = [](std::string_view digits) {
      size_t value = 0;
      std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
      return value;
    };
    const size_t dash = range.find('-');
    const size_t first = number(range.substr(0, dash));
    const size_t last = dash == range.npos ? first : number(range.substr(dash + 1));
    for (size_t c = first; c <= last; ++c)
      script_of.at(c) = static_cast<uint8_t>(scripts.size() - 1);
  }

  void add_language(std::string_view line) {
    Language language{.name = take(line)};
    const std::string_view script = take(line);
    language.script =
        static_cast<size_t>(std::find(scripts.begin(), scripts.end(), script) - scripts.begin());
    language.has_words = !line.empty();
    while (!line.empty()) words[take(line)].push_back(languages.size());
    languages.push_back(language);
  }

  std::vector<std::string_view> scripts;
  std::array<uint8_t, 0x10000> script_of{};  // by code point
  std::vector<Language> languages;
  std::unordered_map<std::string_view, std::vector<size_t>> words;  // the languages of each
};

const Languages& table() {
  static const Languages languages;
  return languages;
}

}  // namespace

LanguageRule::LanguageRule() : letters_(table().scripts.size()), hits_(table().languages.size()) {}

std::vector<std::string_view> LanguageRule::languages() {
  std::vector<std::string_view> names;
  for (const Language& language : table().languages) names.push_back(language.name);
  return names;
}

LanguageRule::Guess LanguageRule::guess(std::string_view text) {
  const Languages& known = table();
  std::fill(letters_.begin(), letters_.end(), 0);
  std::fill(hits_.begin(), hits_.end(), 0);
  found_.clear();
  int64_t all = 0;
  word_.clear();
  const auto end_word = [&] {
    const auto found = known.words.find(word_);
    if (found != known.words.end()) {
      for (const size_t language : found->second) ++hits_[language];
      found_.push_back(&found->second);
    }
    word_.clear();
  };
  while (!text.empty()) {
    const auto [c, size] = text::decode_code_point(text);
    text.remove_prefix(size);
    const size_t script = c < known.script_of.size() ? known.script_of[c] : kNone;
    if (script == kNone) {
      if (!word_.empty()) end_word();
      continue;
    }
    ++letters_[script];
    ++all;
    const auto lower = static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
    text::append_code_point(lower, word_);
  }
  if (!word_.empty()) end_word();
  if (all == 0) return {};

  // Japanese has more kanji than kana at times, Chinese has none of these.
  const auto index = [&](std::string_view script) {
    return static_cast<size_t>(std::find(known.scripts.begin(), known.scripts.end(), script) -
                               known.scripts.begin());
  };
  const size_t kana = index("kana"), han = index("han");
  if (letters_[kana] * 10 > letters_[han]) letters_[kana] += std::exchange(letters_[han], 0);
  const auto most = std::max_element(letters_.begin(), letters_.end());
  const auto script = static_cast<size_t>(most - letters_.begin());
  const double share = static_cast<double>(*most) / static_cast<double>(all);

  size_t best = known.languages.size(), next = best;
  const auto hits = [&](size_t language) {
    return language == known.languages.size() ? 0 : hits_[language];
  };
  for (size_t i = 0; i < known.languages.size(); ++i) {
    if (known.languages[i].script != script) continue;
    if (!known.languages[i].has_words) return {known.languages[i].name, share};
    if (hits(i) > hits(best)) {
      next = best;
      best = i;
    } else if (hits(i) > hits(next)) {
      next = i;
    }
  }
  if (hits(best) == 0) return {};
  // Words of both say nothing of close languages.
  int64_t of_best = 0, of_next = 0;
  for (const std::vector<size_t>* const languages : found_) {
    const bool is_best = std::find(languages->begin(), languages->end(), best) != languages->end();
    const bool is_next = std::find(languages->begin(), languages->end(), next) != languages->end();
    of_best += is_best && !is_next ? 1 : 0;
    of_next += is_next && !is_best ? 1 : 0;
  }
  const int64_t of_one = of_best + of_next;
  const double lead =
      of_one == 0 ? 0.5 : static_cast<double>(of_best) / static_cast<double>(of_one);
  return {known.languages[best].name, share * lead};
}

}  // namespace meg::cleaning
