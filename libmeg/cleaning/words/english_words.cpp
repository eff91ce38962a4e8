#include "libmeg/cleaning/words/english_words.h"

#include <xxhash.h>

#include <algorithm>
#include <bitset>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>

#include "libmeg/cleaning/words/internal/affixes.h"
#include "libmeg/cleaning/words/internal/character_table.h"
#include "libmeg/cleaning/words/internal/english_tables.h"
#include "libmeg/text/ascii.h"
#include "libmeg/text/utf8.h"

// spaCy's algorithm (tokenizer.pyx), of which affixes.h has the regular expressions: a text is cut
// at whitespace; from each chunk prefixes and suffixes are split off until none is left or the rest
// is a word of the table; the rest is kept whole if it is a URL, else cut at infixes. Last, words
// of the table that affixes have cut are put together again.

namespace meg::cleaning {
namespace {

struct WordHash {
  size_t operator()(std::string_view word) const { return XXH3_64bits(word.data(), word.size()); }
};

/// Says quickly of most words that they are not among some words.
class WordSieve {
 public:
  void add(std::string_view word) { bits_.set(bit_of(word)); }

  /// word: not empty.
  bool may_have(std::string_view word) const { return bits_[bit_of(word)]; }

 private:
  static constexpr int kBits = 16;

  /// By the first two bytes, the last one and the size.
  static size_t bit_of(std::string_view word) {
    const auto byte = [word](size_t at) { return uint32_t{static_cast<uint8_t>(word[at])}; };
    const size_t last = word.size() - 1;
    const uint32_t key = byte(0) | byte(std::min<size_t>(1, last)) << 8U | byte(last) << 16U |
                         static_cast<uint32_t>(word.size()) << 24U;
    return (key * 0x9e3779b1U) >> (32 - kBits);
  }

  std::bitset<size_t{1} << kBits> bits_;
};

/// The words of the table: the lengths of the tokens they become.
class SplitWords {
 public:
  SplitWords() {
    for (const SplitWord& split : english_tables().words) {
      sieve_.add(split.word);
      std::vector<uint8_t>& lengths = words_[split.word];
      std::string_view rest = split.tokens;
      while (!rest.empty()) {
        const size_t size = std::min(rest.find(' '), rest.size());
        lengths.push_back(static_cast<uint8_t>(size));
        rest.remove_prefix(std::min(size + 1, rest.size()));
      }
    }
  }

  /// Null where it is no word of the table.
  const std::vector<uint8_t>* find(std::string_view word) const {
    if (word.empty() || !sieve_.may_have(word)) return nullptr;
    const auto found = words_.find(word);
    return found == words_.end() ? nullptr : &found->second;
  }

 private:
  std::unordered_map<std::string_view, std::vector<uint8_t>, WordHash> words_;
  WordSieve sieve_;
};

const SplitWords& split_word_table() {
  static const SplitWords words;
  return words;
}

void push_split(std::string_view word, const std::vector<uint8_t>& lengths,
                std::vector<std::string_view>& tokens) {
  for (const uint8_t length : lengths) {
    tokens.push_back(word.substr(0, length));
    word.remove_prefix(length);
  }
}

/// The sequences of tokens that words of the table are cut into by affixes alone, by their first.
struct CutWords {
  std::unordered_map<std::string_view, std::vector<std::vector<std::string_view>>, WordHash>
      by_first;
  WordSieve firsts;
};

}  // namespace

int64_t count_characters(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char byte) { return !text::is_continuation_byte(byte); });
}

uint32_t character_flags(char32_t code_point) { return character_table().flags(code_point); }

/// The part of a text between whitespace, in characters.
class EnglishWords::Chunk {
 public:
  Chunk(EnglishWords& words, std::string_view text) : words_(words), text_(text) {
    words.code_points_.clear();
    words.offsets_.clear();
    for (size_t at = 0; at < text.size();) {
      const text::DecodedCodePoint next = text::decode_code_point(text.substr(at));
      words.code_points_.push_back(next.code_point);
      words.offsets_.push_back(static_cast<uint32_t>(at));
      at += next.size;
    }
    words.offsets_.push_back(static_cast<uint32_t>(text.size()));
  }

  /// Appends the chunk's tokens. with_table: words of the table are kept or split as it says.
  void split(bool with_table) {
    size_t begin = 0, end = words_.code_points_.size(), last_size = end + 1;
    words_.suffixes_.clear();
    const auto is_word = [&](size_t from, size_t to) {
      return with_table && from < to && split_word_table().find(bytes(from, to)) != nullptr;
    };
    while (begin < end && end - begin != last_size) {
      if (is_word(begin, end)) break;
      last_size = end - begin;
      const size_t prefix = find_prefix(characters(begin, end));
      if (prefix > 0 && is_word(begin + prefix, end)) {
        push(begin, begin + prefix);
        begin += prefix;
        break;
      }
      const size_t suffix = find_suffix(characters(begin + prefix, end));
      if (suffix > 0 && is_word(begin, end - suffix)) {
        words_.suffixes_.push_back(bytes(end - suffix, end));
        end -= suffix;
        break;
      }
      if (prefix > 0) push(begin, begin + prefix);
      begin += prefix;
      if (suffix > 0) words_.suffixes_.push_back(bytes(end - suffix, end));
      end -= suffix;
    }
    split_middle(begin, end, with_table);
    words_.tokens_.insert(words_.tokens_.end(), words_.suffixes_.rbegin(), words_.suffixes_.rend());
  }

 private:
  CodePoints characters(size_t begin, size_t end) const {
    return CodePoints(words_.code_points_).subspan(begin, end - begin);
  }

  std::string_view bytes(size_t begin, size_t end) const {
    return text_.substr(words_.offsets_[begin], words_.offsets_[end] - words_.offsets_[begin]);
  }

  void push(size_t begin, size_t end) { words_.tokens_.push_back(bytes(begin, end)); }

  void split_middle(size_t begin, size_t end, bool with_table) {
    if (begin == end) return;
    const std::string_view word = bytes(begin, end);
    if (with_table) {
      if (const auto* const lengths = split_word_table().find(word)) {
        return push_split(word, *lengths, words_.tokens_);
      }
    }
    const CodePoints middle = characters(begin, end);
    if (is_url(middle)) return words_.tokens_.push_back(word);
    size_t start = 0;
    for (size_t at = 0; at < middle.size();) {
      const size_t infix = find_infix(middle, at);
      if (infix > 0 && at > 0) {  // One at the front splits nothing.
        if (at > start) push(begin + start, begin + at);
        push(begin + at, begin + at + infix);
        start = at + infix;
      }
      at += std::max<size_t>(infix, 1);
    }
    if (start < middle.size()) push(begin + start, end);
  }

  EnglishWords& words_;
  std::string_view text_;
};

void EnglishWords::split_tokens(std::string_view text) {
  tokens_.clear();
  size_t at = 0;
  while (at < text.size()) {
    // Whitespace: a space after a word belongs to the word, what follows is a token.
    const bool is_one_space =
        at > 0 && text[at] == ' ' && at + 1 < text.size() && text::is_ascii_letter(text[at + 1]);
    if (is_one_space) {
      ++at;
    } else {
      at = skip_space(text, at);
    }
    // Most words are letters of ASCII, some with a mark after them.
    const size_t begin = at;
    while (at < text.size() && text::is_ascii_letter(text[at])) ++at;
    const std::string_view letters = text.substr(begin, at - begin);
    if (at == text.size() || text[at] == ' ' || text[at] == '\n') {
      if (!letters.empty()) push_word(letters);
      continue;
    }
    constexpr std::string_view kMarks = ",;:?!.";
    const bool is_marked = letters.size() > 1 && kMarks.find(text[at]) != kMarks.npos &&
                           letters.back() >= 'a' &&
                           (at + 1 == text.size() || text[at + 1] == ' ' || text[at + 1] == '\n');
    if (is_marked && split_word_table().find(text.substr(begin, at + 1 - begin)) == nullptr) {
      push_word(letters);
      tokens_.push_back(text.substr(at++, 1));
      continue;
    }
    while (at < text.size()) {
      const text::DecodedCodePoint next = text::decode_code_point(text.substr(at));
      if (has(next.code_point, kSpace)) break;
      at += next.size;
    }
    const std::string_view chunk = text.substr(begin, at - begin);
    if (chunk.empty()) continue;
    if (const auto* const lengths = split_word_table().find(chunk)) {
      push_split(chunk, *lengths, tokens_);
    } else {
      Chunk(*this, chunk).split(true);
    }
  }
  merge_split_words();
}

/// Skips whitespace, of which all but a space after a word becomes a token.
size_t EnglishWords::skip_space(std::string_view text, size_t at) {
  const size_t begin = at;
  while (at < text.size()) {
    const text::DecodedCodePoint next = text::decode_code_point(text.substr(at));
    if (!has(next.code_point, kSpace)) break;
    at += next.size;
  }
  std::string_view space = text.substr(begin, at - begin);
  if (begin > 0 && space.starts_with(' ')) space.remove_prefix(1);
  if (!space.empty()) tokens_.push_back(space);
  return at;
}

void EnglishWords::push_word(std::string_view word) {
  if (const auto* const lengths = split_word_table().find(word)) {
    push_split(word, *lengths, tokens_);
  } else {
    tokens_.push_back(word);
  }
}

void EnglishWords::merge_split_words() {
  static const CutWords cut_words = [] {
    CutWords found;
    EnglishWords cutter;
    for (const SplitWord& split : english_tables().words) {
      cutter.tokens_.clear();
      const std::u32string word = decoded(split.word);
      bool has_infix = false;
      for (size_t at = 0; at < word.size(); ++at) {
        has_infix = has_infix || find_infix(word, at) > 0;
      }
      if (find_prefix(word) == 0 && find_suffix(word) == 0 && !has_infix) continue;
      Chunk(cutter, split.word).split(false);
      const std::string_view first = cutter.tokens_.front();
      found.by_first[first].push_back(cutter.tokens_);
      found.firsts.add(first);
    }
    return found;
  }();

  struct Match {
    size_t begin, end;
  };

  std::vector<Match> matches;
  for (size_t i = 0; i < tokens_.size(); ++i) {
    if (!cut_words.firsts.may_have(tokens_[i])) continue;
    const auto found = cut_words.by_first.find(tokens_[i]);
    if (found == cut_words.by_first.end()) continue;
    for (const std::vector<std::string_view>& sequence : found->second) {
      if (sequence.size() <= tokens_.size() - i &&
          std::equal(sequence.begin(), sequence.end(),
                     tokens_.begin() + static_cast<std::ptrdiff_t>(i))) {
        matches.push_back({i, i + sequence.size()});
      }
    }
  }
  if (matches.empty()) return;
  // Of those that overlap the longest one counts, of equal ones the first.
  std::stable_sort(matches.begin(), matches.end(), [](const Match& a, const Match& b) {
    const size_t size_a = a.end - a.begin, size_b = b.end - b.begin;
    return size_a != size_b ? size_a > size_b : a.begin < b.begin;
  });
  std::vector<bool> is_seen(tokens_.size());
  std::vector<Match> chosen;
  for (const Match& match : matches) {
    if (!is_seen[match.begin] && !is_seen[match.end - 1]) chosen.push_back(match);
    for (size_t i = match.begin; i < match.end; ++i) is_seen[i] = true;
  }
  std::sort(chosen.begin(), chosen.end(),
            [](const Match& a, const Match& b) { return a.begin < b.begin; });
  std::vector<std::string_view> merged;
  merged.reserve(tokens_.size());
  size_t next = 0;
  for (const Match& match : chosen) {
    const auto iterator = [&](size_t i) {
      return tokens_.begin() + static_cast<std::ptrdiff_t>(i);
    };
    merged.insert(merged.end(), iterator(next), iterator(match.begin));
    next = match.end;
    const char* const begin = tokens_[match.begin].data();
    const std::string_view& last = tokens_[match.end - 1];
    const std::string_view whole(begin, static_cast<size_t>(last.data() + last.size() - begin));
    // With spaces between its tokens it is no word.
    if (const auto* const lengths = split_word_table().find(whole)) {
      push_split(whole, *lengths, merged);
    } else {
      merged.insert(merged.end(), iterator(match.begin), iterator(match.end));
    }
  }
  merged.insert(merged.end(), tokens_.begin() + static_cast<std::ptrdiff_t>(next), tokens_.end());
  tokens_ = std::move(merged);
}

void EnglishWords::split(std::string_view text) {
  split_tokens(text);
  words_.clear();
  for (const std::string_view token : tokens_) {
    const bool is_ascii = token.front() > ' ' && token.front() < '\x7f';
    if (is_ascii || !has(text::decode_code_point(token).code_point, kSpace)) {
      words_.push_back(token);
    }
  }
}

int64_t EnglishWords::count_sentences(std::string_view text) {
  split_tokens(text);
  int64_t sentences = tokens_.empty() ? 0 : 1;
  bool is_over = false;  // a mark that ends a sentence was seen
  for (std::string_view token : tokens_) {
    const text::DecodedCodePoint first = text::decode_code_point(token);
    const bool is_end = first.size == token.size() && has(first.code_point, kSentenceEnd);
    if (is_end) {
      is_over = true;
      continue;
    }
    if (!is_over) continue;
    bool is_punctuation = true;
    while (!token.empty() && is_punctuation) {
      const text::DecodedCodePoint next = text::decode_code_point(token);
      is_punctuation = has(next.code_point, kUnicodePunctuation);
      token.remove_prefix(next.size);
    }
    if (is_punctuation) continue;
    ++sentences;
    is_over = false;
  }
  return sentences;
}

}  // namespace meg::cleaning
