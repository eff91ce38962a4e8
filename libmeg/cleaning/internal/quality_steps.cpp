#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "libmeg/cleaning/internal/step.h"
#include "libmeg/cleaning/words/internal/english_tables.h"
#include "libmeg/text/ascii.h"
#include "libmeg/text/python_text.h"
#include "libmeg/text/text_padding.h"
#include "libmeg/text/utf8.h"

// The quality rules of Gopher (Rae et al. 2021, table A1), C4 (Raffel et al. 2020) and FineWeb
// (Penedo et al. 2024), as datatrove 0.10 counts lines, words and characters. Its reasons are the
// names here.

namespace meg::cleaning {
namespace {

using Words = std::vector<std::string_view>;

double ratio(int64_t part, int64_t whole) {
  return static_cast<double>(part) / static_cast<double>(whole);
}

/// Whether a character with one of these flags occurs in `text`.
bool any_has(std::string_view text, uint32_t flags) {
  while (!text.empty()) {
    const text::DecodedCodePoint next = text::decode_code_point(text);
    if ((character_flags(next.code_point) & flags) != 0) return true;
    text.remove_prefix(next.size);
  }
  return false;
}

bool all_have(std::string_view text, uint32_t flags) {
  while (!text.empty()) {
    const text::DecodedCodePoint next = text::decode_code_point(text);
    if ((character_flags(next.code_point) & flags) == 0) return false;
    text.remove_prefix(next.size);
  }
  return true;
}

/// Faster than find() where the first letter is a frequent one.
bool contains(std::string_view text, std::string_view part) {
  return ::memmem(text.data(), text.size(), part.data(), part.size()) != nullptr;
}

/// str.count: occurrences that do not overlap.
int64_t count_of(std::string_view text, std::string_view part) {
  int64_t count = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size()))
    ++count;
  return count;
}

/// Bytes of the line end that `text` begins with, for str.splitlines(); 0 where it does not.
size_t line_end_size(std::string_view text) {
  const char first = text.front();
  if (first == '\r') return text.starts_with("\r\n") ? 2 : 1;
  if ((first >= '\n' && first <= '\f') || (first >= '\x1c' && first <= '\x1e')) return 1;
  if (text.starts_with("\xc2\x85")) return 2;
  return text.starts_with("\xe2\x80\xa8") || text.starts_with("\xe2\x80\xa9") ? 3 : 0;
}

/// Whether line_end_size() is to be asked about a byte.
constexpr bool may_end_line(char c) {
  return (c >= '\n' && c <= '\x1e') || c == '\xc2' || c == '\xe2';
}

constexpr size_t kWord = sizeof(uint64_t);
constexpr uint64_t kLowBits = 0x0101010101010101, kHighBits = 0x8080808080808080;

uint64_t load_word(const char* at) {
  uint64_t word;
  std::memcpy(&word, at, kWord);
  return word;
}

/// Of 8 bytes: false only if none may end a line.
bool any_may_end_line(const char* at) {
  const uint64_t word = load_word(at);
  const uint64_t below = (word - kLowBits * 0x1f) & ~word;
  return ((word | below) & kHighBits) != 0;
}

/// str.splitlines()
void split_lines(std::string_view text, std::vector<std::string_view>& lines) {
  lines.clear();
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    if (at + kWord <= text.size() && !any_may_end_line(text.data() + at)) {
      at += kWord;
      continue;
    }
    if (!may_end_line(text[at])) {
      ++at;
      continue;
    }
    const size_t size = line_end_size(text.substr(at));
    if (size > 0) {
      lines.push_back(text.substr(begin, at - begin));
      begin = at + size;
    }
    at += std::max<size_t>(size, 1);
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
}

/// re.split of runs of at least `least` LFs.
void split_at_newlines(std::string_view text, size_t least, std::vector<std::string_view>& parts) {
  parts.clear();
  size_t begin = 0;
  for (size_t at = text.find('\n'); at != text.npos; at = text.find('\n', at)) {
    const size_t end = std::min(text.find_first_not_of('\n', at), text.size());
    if (end - at >= least) {
      parts.push_back(text.substr(begin, at - begin));
      begin = end;
    }
    at = end;
  }
  parts.push_back(text.substr(begin));
}

/// Texts, by their digests, with how often each occurs and where it does first.
class DigestCounts {
 public:
  struct Slot {
    uint64_t digest = 0;
    uint32_t count = 0;
    uint32_t first = 0;
  };

  /// most: how many there will be.
  void restart(size_t most) {
    size_t size = 16;
    while (size < most * 2) size *= 2;
    slots_.assign(size, {});
  }

  /// The text's slot, after it was counted. place: of the text.
  const Slot& add(std::string_view text, size_t place) {
    const uint64_t digest = XXH3_64bits(text.data(), text.size());
    const size_t mask = slots_.size() - 1;
    size_t at = digest & mask;
    while (slots_[at].count > 0 && slots_[at].digest != digest) at = (at + 1) & mask;
    Slot& slot = slots_[at];
    if (slot.count++ == 0) {
      slot.digest = digest;
      slot.first = static_cast<uint32_t>(place);
    }
    return slot;
  }

 private:
  std::vector<Slot> slots_;
};

struct Repeated {
  int64_t count = 0;
  int64_t characters = 0;
};

Repeated count_repeated(const std::vector<std::string_view>& parts, DigestCounts& counts) {
  Repeated repeated;
  counts.restart(parts.size());
  for (const std::string_view part : parts) {
    if (counts.add(part, 0).count == 1) continue;
    ++repeated.count;
    repeated.characters += count_characters(part);
  }
  return repeated;
}

/// The words of a text one after another, to look at runs of them.
class WordRuns {
 public:
  /// words: of the document, in order. has_spaces: one after each.
  void set(Document& document, bool has_spaces) {
    const Words& words = document.words();
    separator_ = has_spaces ? 1 : 0;
    is_ascii_ = text::is_ascii(document.text());
    const size_t most = document.text().size() + words.size() + kCopied;
    if (joined_.size() < most) joined_.resize(most * 2);
    begins_.resize(words.size() + 1);
    char* const begin = joined_.data();
    char* out = begin;
    for (size_t i = 0; i < words.size(); ++i) {
      begins_[i] = static_cast<size_t>(out - begin);
      // Most words are short, and a text has readable bytes after it.
      const std::string_view word = words[i];
      std::memcpy(out, word.data(), kCopied);
      if (word.size() > kCopied) std::memcpy(out, word.data(), word.size());
      out += word.size();
      *out = ' ';
      out += separator_;
    }
    begins_.back() = static_cast<size_t>(out - begin);
    if (is_ascii_) return;
    characters_.assign(1, 0);
    for (const std::string_view word : words) {
      characters_.push_back(characters_.back() + count_characters(word));
    }
  }

  size_t words() const { return begins_.size() - 1; }

  std::string_view run(size_t first, size_t count) const {
    const size_t begin = begins_[first];
    return {joined_.data() + begin, begins_[first + count] - separator_ - begin};
  }

  /// A number that is the same for equal runs.
  uint64_t key(size_t first, size_t count) const {
    const std::string_view text = run(first, count);
    uint64_t word = load_word(text.data());
    if (text.size() < kWord) word &= (uint64_t{1} << text.size() * 8) - 1;
    return (word ^ text.size()) * kFactor;
  }

  /// The same of the first 16 bytes of all words from this one on.
  uint64_t beginning_key(size_t first) const {
    const char* const at = joined_.data() + begins_[first];
    return (load_word(at) * kFactor ^ std::rotl(load_word(at + kWord), 32)) * kFactor;
  }

  /// Of the longest run of `count` words.
  int64_t most_characters(size_t count) const {
    int64_t most = 0;
    for (size_t i = 0; i + count <= words(); ++i) most = std::max(most, characters(i, count));
    return most;
  }

  int64_t characters(size_t first, size_t count) const {
    if (is_ascii_) return std::ssize(run(first, count));
    return characters_[first + count] - characters_[first] +
           static_cast<int64_t>(separator_ * (count - 1));
  }

 private:
  static constexpr size_t kCopied = 16;
  static constexpr uint64_t kFactor = 0x9e3779b97f4a7c15;

  size_t separator_ = 0;
  bool is_ascii_ = false;
  std::vector<char> joined_;         // and bytes after it
  std::vector<size_t> begins_;       // and the end
  std::vector<int64_t> characters_;  // before each; not of ASCII
};

class GopherRepetition : public Step {
 public:
  Result<std::string_view> run(Document& document) override {
    const std::string_view text = document.text();
    if (text.empty()) return std::string_view("empty");
    const int64_t characters = count_characters(text);
    split_at_newlines(text::python_strip(text), 2, parts_);
    Repeated repeated = count_repeated(parts_, counts_);
    if (ratio(repeated.count, std::ssize(parts_)) > 0.3) return std::string_view("dup_para_frac");
    if (ratio(repeated.characters, characters) > 0.2) return std::string_view("dup_para_char_frac");
    split_at_newlines(text, 1, parts_);
    repeated = count_repeated(parts_, counts_);
    if (ratio(repeated.count, std::ssize(parts_)) > 0.3) return std::string_view("dup_line_frac");
    if (ratio(repeated.characters, characters) > 0.2) return std::string_view("dup_line_char_frac");

    constexpr struct {
      size_t words;
      double most;
      std::string_view reason;
    } kTop[] = {{2, 0.2, "top_2_gram"}, {3, 0.18, "top_3_gram"}, {4, 0.16, "top_4_gram"}},
      kRepeated[] = {{5, 0.15, "duplicated_5_n_grams"}, {6, 0.14, "duplicated_6_n_grams"},
                     {7, 0.13, "duplicated_7_n_grams"}, {8, 0.12, "duplicated_8_n_grams"},
                     {9, 0.11, "duplicated_9_n_grams"}, {10, 0.10, "duplicated_10_n_grams"}};

    runs_.set(document, true);
    int64_t most = runs_.words();
    for (const auto& rule : kTop) {
      // A run occurs no more often than a shorter one in it.
      if (ratio(most * runs_.most_characters(rule.words), characters) <= rule.most) continue;
      if (ratio(bound_most_frequent(rule.words, most), characters) <= rule.most) continue;
      if (ratio(most_frequent(rule.words, most), characters) > rule.most) return rule.reason;
    }
    runs_.set(document, false);
    find_repeated_beginnings(kRepeated[0].words);
    for (const auto& rule : kRepeated) {
      if (ratio(repeated_runs(rule.words), characters) > rule.most) return rule.reason;
    }
    return std::string_view();
  }

 private:
  /// At least what most_frequent() answers, as of runs with equal keys. occurrences: lowered to at
  /// least how often a run of `words` words occurs.
  int64_t bound_most_frequent(size_t words, int64_t& occurrences) {
    if (runs_.words() < words) return 0;
    const size_t count = runs_.words() - words + 1;
    const int bits = std::clamp(static_cast<int>(std::bit_width(count)), 6, 16);
    occurrences_.assign(size_t{1} << bits, 0);
    keys_.resize(count);
    for (size_t i = 0; i < count; ++i) {
      keys_[i] = runs_.key(i, words) >> (64 - bits);
      ++occurrences_[keys_[i]];
    }
    int64_t most = 0, bound = 0;
    for (size_t i = 0; i < count; ++i) {
      const int64_t occurs = occurrences_[keys_[i]];
      most = std::max(most, occurs);
      bound = std::max(bound, occurs * runs_.characters(i, words));
    }
    occurrences = std::min(occurrences, most);
    return bound;
  }

  /// Characters of the run of `words` words that occurs most often, the first such one, times how
  /// often that is. occurrences: receives that number.
  int64_t most_frequent(size_t words, int64_t& occurrences) {
    counts_.restart(runs_.words());
    uint32_t most = 0, first = 0;
    for (size_t i = 0; i + words <= runs_.words(); ++i) {
      const DigestCounts::Slot& slot = counts_.add(runs_.run(i, words), i);
      if (slot.count < most || (slot.count == most && slot.first > first)) continue;
      most = slot.count;
      first = slot.first;
    }
    occurrences = most;
    return most == 0 ? 0 : most * runs_.characters(first, words);
  }

  /// Finds the words at which runs of `fewest` words or more can begin that occur twice: all that
  /// are not the only ones with the same bytes after them, and those of shorter runs.
  void find_repeated_beginnings(size_t fewest) {
    candidates_.clear();
    if (runs_.words() < fewest) return;
    const size_t count = runs_.words() - fewest + 1;
    // Two bits for each key: whether it was seen, and whether it was again.
    const int bits = std::clamp(static_cast<int>(std::bit_width(count)) + 3, 10, 26);
    seen_.assign(size_t{2} << bits, false);
    keys_.resize(count);
    for (size_t i = 0; i < count; ++i) {
      keys_[i] = 2 * (runs_.beginning_key(i) >> (64 - bits));
      if (seen_[keys_[i]]) seen_[keys_[i] + 1] = true;
      seen_[keys_[i]] = true;
    }
    constexpr size_t kBeginning = 2 * kWord;
    for (size_t i = 0; i < count; ++i) {
      if (seen_[keys_[i] + 1] || runs_.run(i, fewest).size() < kBeginning) candidates_.push_back(i);
    }
  }

  /// Characters of runs of `words` words that occurred before, which do not overlap.
  int64_t repeated_runs(size_t words) {
    counts_.restart(candidates_.size());
    int64_t characters = 0;
    size_t next = 0;
    for (const size_t i : candidates_) {
      if (i + words > runs_.words()) break;
      if (i < next || counts_.add(runs_.run(i, words), i).count == 1) continue;
      characters += runs_.characters(i, words);
      next = i + words;
    }
    return characters;
  }

  std::vector<std::string_view> parts_;
  DigestCounts counts_;
  WordRuns runs_;
  std::vector<size_t> candidates_;  // words
  std::vector<uint64_t> keys_;
  std::vector<uint32_t> occurrences_;  // by key
  std::vector<bool> seen_;
};

class GopherQuality : public Step {
 public:
  Result<std::string_view> run(Document& document) override {
    const std::string_view text = document.text();
    const Words& words = document.words();
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
  static int64_t count_stop_words(const Words& words) {
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

/// `text` as str.lower() has it, as far as ASCII letters are concerned: two other characters become
/// some.
void lower_to_ascii(std::string_view text, std::string& out) {
  out.clear();
  for (size_t at = 0; at < text.size(); ++at) {
    // Runs of ASCII are most of it.
    const size_t begin = at;
    while (at < text.size() && text[at] >= 0) ++at;
    out.append(text.substr(begin, at - begin));
    std::transform(out.end() - static_cast<std::ptrdiff_t>(at - begin), out.end(),
                   out.end() - static_cast<std::ptrdiff_t>(at - begin), [](char c) {
                     return static_cast<char>(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
                   });
    if (at == text.size()) return;
    const char c = text[at];
    if (c == '\xe2' && text.substr(at).starts_with("\u212a")) {  // the Kelvin sign
      out += 'k';
      at += 2;
    } else if (c == '\xc4' && text.substr(at).starts_with("\u0130")) {  // I with a dot
      out += "i\u0307";
      at += 1;
    } else {
      out += c;
    }
  }
}

class C4Quality : public Step {
 public:
  Result<std::string_view> run(Document& document) override {
    split_lines(document.text(), lines_);
    text_.clear();
    int64_t sentences = 0;
    for (const std::string_view whole : lines_) {
      const std::string_view stripped = text::python_strip(whole);
      int64_t words = 0;
      if (has_long_word(stripped, words)) continue;
      remove_citations(stripped);
      if (!ends_sentence(line_) || words < 3) continue;
      lower_to_ascii(line_, lower_);
      if (contains(lower_, "lorem ipsum")) return std::string_view("lorem_ipsum");
      if (contains(lower_, "javascript")) continue;
      if (line_.find('{') != line_.npos) return std::string_view("curly_bracket");
      if (names_policy()) continue;
      sentences += sentences_.count_sentences(line_);
      text_.append(text_.empty() ? "" : "\n").append(line_);
    }
    if (sentences < 5) return std::string_view("too_few_sentences");
    const std::string_view inner = text::python_strip(text_);
    const auto begin = static_cast<size_t>(inner.data() - text_.data());
    const size_t size = inner.size();
    text_.resize(text_.size() + text::kTextPadding);
    document.change_text(std::string_view(text_).substr(begin, size));
    return std::string_view();
  }

 private:
  static bool has_long_word(std::string_view line, int64_t& words) {
    constexpr int64_t kLongest = 1000;
    int64_t length = 0;
    bool is_long = false;
    while (!line.empty()) {
      if (line.front() > ' ' && line.front() < '\x7f') {
        line.remove_prefix(1);
        words += ++length == 1 ? 1 : 0;
        is_long = is_long || length > kLongest;
        continue;
      }
      const text::DecodedCodePoint next = text::decode_code_point(line);
      line.remove_prefix(next.size);
      length = text::is_python_space(next.code_point) ? 0 : length + 1;
      words += length == 1 ? 1 : 0;
      is_long = is_long || length > kLongest;
    }
    return is_long;
  }

  /// Sets line_ to the line without the citations of a wiki: [edit], [citation needed], [12], [].
  void remove_citations(std::string_view line) {
    line_.clear();
    while (!line.empty()) {
      const size_t bracket = std::min(line.find('['), line.size());
      line_.append(line.substr(0, bracket));
      line.remove_prefix(bracket);
      if (line.empty()) return;
      const size_t size = citation_size(line);
      if (size == 0) line_ += '[';
      line.remove_prefix(std::max<size_t>(size, 1));
    }
  }

  static size_t citation_size(std::string_view text) {
    for (const std::string_view known : {"[edit]", "[citation needed]"}) {
      if (text.starts_with(known)) return known.size();
    }
    size_t at = 1;
    while (at < text.size()) {
      const text::DecodedCodePoint next = text::decode_code_point(text.substr(at));
      if (next.code_point == ']') return at + 1;
      if ((character_flags(next.code_point) & kDigit) == 0) return 0;
      at += next.size;
    }
    return 0;
  }

  static bool ends_sentence(std::string_view line) {
    constexpr std::string_view kEnds = ".?!\"'";
    return !line.empty() && kEnds.find(line.back()) != kEnds.npos && !line.ends_with("...");
  }

  bool names_policy() const {
    if (contains(lower_, "terms of use") || contains(lower_, "privacy policy")) return true;
    constexpr std::string_view kPolicies[] = {"cookie policy", "uses cookies", "use of cookies",
                                              "use cookies"};
    return contains(lower_, "cookie") &&
           std::any_of(std::begin(kPolicies), std::end(kPolicies),
                       [&](std::string_view policy) { return contains(lower_, policy); });
  }

  EnglishWords sentences_;
  std::vector<std::string_view> lines_;
  std::string line_, lower_, text_;
};

class FineWebQuality : public Step {
 public:
  Result<std::string_view> run(Document& document) override {
    const std::string_view text = document.text();
    const int64_t newlines = std::count(text.begin(), text.end(), '\n');
    split_at_newlines(text, 1, lines_);
    std::erase_if(lines_, [](std::string_view line) { return text::python_strip(line).empty(); });
    if (lines_.empty()) return std::string_view("empty");
    int64_t ended = 0, short_lines = 0;
    for (const std::string_view line : lines_) {
      const std::string_view last = line.substr(text::begin_of_character_before(line, line.size()));
      ended += any_has(last, kTerminal) ? 1 : 0;
      short_lines += count_characters(line) <= 30 ? 1 : 0;
    }
    const int64_t lines = std::ssize(lines_);
    if (ratio(ended, lines) < 0.12) return std::string_view("line_punct_ratio");
    if (ratio(short_lines, lines) > 0.67) return std::string_view("short_line_ratio");
    const Repeated repeated = count_repeated(lines_, counts_);
    if (ratio(repeated.characters, count_characters(text) - newlines) > 0.01) {
      return std::string_view("char_dup_ratio");
    }
    if (ratio(newlines, std::ssize(document.words())) > 0.3) return std::string_view("list_ratio");
    return std::string_view();
  }

 private:
  std::vector<std::string_view> lines_;
  DigestCounts counts_;
};

constexpr std::string_view kRules[] = {"gopher_repetition", "gopher_quality", "c4", "fineweb"};

}  // namespace

std::span<const std::string_view> quality_rules() { return kRules; }

StepPlan plan_quality(const std::string& name) {
  StepPlan plan{.name = name, .make = {}};
  if (name == kRules[0]) plan.make = [] { return std::make_unique<GopherRepetition>(); };
  if (name == kRules[1]) plan.make = [] { return std::make_unique<GopherQuality>(); };
  if (name == kRules[2]) plan.make = [] { return std::make_unique<C4Quality>(); };
  if (name == kRules[3]) plan.make = [] { return std::make_unique<FineWebQuality>(); };
  return plan;
}

}  // namespace meg::cleaning
