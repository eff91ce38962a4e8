#include "libmeg/cleaning/ngrams/decontaminate.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <span>
#include <utility>

#include "libmeg/cleaning/words/english_words.h"
#include "libmeg/cleaning/words/internal/english_tables.h"
#include "libmeg/preprocess/read_texts.h"
#include "libmeg/preprocess/sentences/python_lower.h"
#include "libmeg/text/ascii.h"
#include "libmeg/text/utf8.h"

// filter_ngrams.py measures n-grams as its words with one space between them, whatever the text has
// there, and takes places in the lower-case text for places in the text. What it cuts follows from
// that, so that it is done here, too.

namespace meg::cleaning {
namespace {

constexpr bool is_ascii_word(char c) {
  return text::is_ascii_letter(c) || text::is_ascii_digit(c) || c == '_';
}

uint64_t digest(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }

/// Places of a text's characters.
class CharacterPlaces {
 public:
  explicit CharacterPlaces(std::string_view text) : text_(text) {
    for (size_t at = 0; at < text.size(); ++at) {
      if (!text::is_continuation_byte(text[at])) places_.push_back(at);
    }
  }

  int64_t size() const { return std::ssize(places_); }

  bool ends_sentence(int64_t at) const {
    const char c = text_[places_[static_cast<size_t>(at)]];
    return c == '.' || c == '!' || c == '?';
  }

  /// text[begin:]
  std::string_view from(int64_t begin) const {
    return begin < size() ? text_.substr(places_[static_cast<size_t>(begin)]) : std::string_view();
  }

  /// text[:end]
  std::string_view before(int64_t end) const {
    return end < size() ? text_.substr(0, places_[static_cast<size_t>(end)]) : text_;
  }

 private:
  std::string_view text_;
  std::vector<size_t> places_;
};

/// The words that an n-gram begins with.
std::string_view first_words(std::string_view ngram, size_t count) {
  size_t end = 0;
  for (size_t i = 0; i < count; ++i) end = std::min(ngram.find(' ', end), ngram.size()) + 1;
  return ngram.substr(0, end - 1);
}

}  // namespace

void LowerWords::split(std::string_view text) {
  joined_.clear();
  begins_.clear();
  places_.clear();
  if (text::is_ascii(text)) {
    lowered_.assign(text);
    for (char& c : lowered_) c = text::ascii_lower(c);
  } else {
    lowered_ = preprocess::lower(text);
  }
  const std::string_view lowered = lowered_;
  bool is_inside = false;
  for (size_t at = 0; at < lowered.size();) {
    const char c = lowered[at];
    size_t size = 1;
    bool is_word = is_ascii_word(c);
    if (is_word) {  // Most words are of ASCII.
      while (at + size < lowered.size() && is_ascii_word(lowered[at + size])) ++size;
    } else if ((c & 0x80) != 0) {
      const text::DecodedCodePoint next = text::decode_code_point(lowered.substr(at));
      size = next.size;
      is_word = (character_flags(next.code_point) & kWord) != 0;
    }
    if (is_word && !is_inside) {
      begins_.push_back(joined_.size());
      places_.push_back(at);
    }
    if (is_word) joined_.append(lowered, at, size);
    if (!is_word && is_inside) joined_ += ' ';
    is_inside = is_word;
    at += size;
  }
  if (is_inside) joined_ += ' ';
  begins_.push_back(joined_.size());
}

int64_t LowerWords::characters_before(size_t word) const {
  return count_characters(std::string_view(lowered_).substr(0, places_[word]));
}

Result<TestNgrams> TestNgrams::read(const DecontaminateOptions& options) {
  if (options.min_ngram_size < 1 || options.max_ngram_size < options.min_ngram_size) {
    return make_error(StatusCode::kInvalidArgument,
                      "`min_ngram_size`, `max_ngram_size`: expected 1 <= min <= max, found {}, {}",
                      options.min_ngram_size, options.max_ngram_size);
  }

  class Collector : public preprocess::TextVisitor {
   public:
    Collector(TestNgrams& ngrams, const DecontaminateOptions& options)
        : ngrams_(ngrams), options_(options) {}

    Status visit(std::string_view text) override {
      words_.split(text);
      ngrams_.add(words_, options_);
      return {};
    }

   private:
    TestNgrams& ngrams_;
    const DecontaminateOptions& options_;
    LowerWords words_;
  };

  TestNgrams ngrams;
  Collector collector(ngrams, options);
  preprocess::TextVisitor* const visitors[] = {&collector};
  preprocess::ReadTextsOptions reading;
  reading.inputs = options.test_sets;
  reading.json_keys = {options.key};
  const auto texts = preprocess::read_texts(reading, visitors, {});
  if (!texts.has_value()) return texts.error().with_prefix("`decontaminate`");
  if (ngrams.ngrams_.empty()) {
    return make_error(
        StatusCode::kInvalidArgument,
        "`decontaminate`: expected texts of at least {} words, found none in {} texts",
        options.min_ngram_size, texts->documents);
  }
  ngrams.index();
  return ngrams;
}

void TestNgrams::add(const LowerWords& words, const DecontaminateOptions& options) {
  const auto min = static_cast<size_t>(options.min_ngram_size);
  const auto max = static_cast<size_t>(options.max_ngram_size);
  if (words.size() < min) return;
  const size_t size = std::min(words.size(), max);
  if (std::find(sizes_.begin(), sizes_.end(), size) == sizes_.end()) sizes_.push_back(size);
  const std::string& text = texts_.emplace_back(words.run(0, words.size()));
  const char* const begin = words.run(0, 1).data();
  for (size_t i = 0; i + size <= words.size(); ++i) {
    const std::string_view ngram = words.run(i, size);
    if (ngrams_.size() * 2 >= slots_.size()) grow();
    const uint64_t key = digest(ngram);
    Slot& slot = slots_[slot_of(key, ngram)];
    if (slot.number >= 0) continue;
    slot = {.digest = key, .number = std::ssize(ngrams_)};
    ngrams_.push_back(
        std::string_view(text).substr(static_cast<size_t>(ngram.data() - begin), ngram.size()));
  }
}

/// The slot of an n-gram, or the one where it belongs.
size_t TestNgrams::slot_of(uint64_t digest, std::string_view ngram) const {
  const size_t mask = slots_.size() - 1;
  size_t at = digest & mask;
  while (slots_[at].number >= 0 && (slots_[at].digest != digest ||
                                    ngrams_[static_cast<size_t>(slots_[at].number)] != ngram)) {
    at = (at + 1) & mask;
  }
  return at;
}

void TestNgrams::grow() {
  constexpr size_t kFewest = 64;
  std::vector<Slot> old(std::max(slots_.size() * 2, kFewest));
  old.swap(slots_);
  const size_t mask = slots_.size() - 1;
  for (const Slot& slot : old) {
    size_t at = slot.digest & mask;
    while (slot.number >= 0 && slots_[at].number >= 0) at = (at + 1) & mask;
    if (slot.number >= 0) slots_[at] = slot;
  }
}

int64_t TestNgrams::find(std::string_view ngram) const {
  const int64_t number = slots_[slot_of(digest(ngram), ngram)].number;
  const bool counts = number >= 0 && counts_[static_cast<size_t>(number)] < threshold_;
  return counts ? number : -1;
}

void TestNgrams::index() {
  std::sort(sizes_.begin(), sizes_.end());
  // A bit in sixteen is set at most.
  beginnings_.assign(std::max<size_t>(std::bit_ceil(ngrams_.size() * 16) / 64, 1), 0);
  for (const std::string_view ngram : ngrams_) {
    const uint64_t bit = digest(first_words(ngram, shortest()));
    beginnings_[bit / 64 & (beginnings_.size() - 1)] |= uint64_t{1} << bit % 64;
  }
  counts_ = std::make_unique<std::atomic<int64_t>[]>(ngrams_.size());
}

bool TestNgrams::may_begin_with(std::string_view words) const {
  const uint64_t bit = digest(words);
  return (beginnings_[bit / 64 & (beginnings_.size() - 1)] >> bit % 64 & 1) != 0;
}

NgramFilter::Match NgramFilter::match_at(size_t word, size_t size) const {
  size = std::min(size, words_.size() - word);
  const std::string_view ngram = words_.run(word, size);
  const int64_t number = ngrams_.find(ngram);
  if (number < 0) return {};
  return {.number = number,
          .begin = words_.characters_before(word),
          .characters = count_characters(ngram)};
}

/// The n-gram that filter_ngrams.py finds first.
NgramFilter::Match NgramFilter::find_first(std::string_view text) {
  words_.split(text);
  const auto most = static_cast<size_t>(options_.max_ngram_size);
  const size_t shortest = ngrams_.shortest();
  if (words_.size() < most || shortest == 0) return {};
  const auto may_match = [&](size_t word) {
    return ngrams_.may_begin_with(words_.run(word, std::min(shortest, words_.size() - word)));
  };
  for (size_t i = 0; i + most <= words_.size(); ++i) {
    if (!may_match(i)) continue;
    if (const Match match = match_at(i, most); match.number >= 0) return match;
    for (const size_t size : ngrams_.sizes()) {
      if (const Match match = match_at(i, size); match.number >= 0) return match;
    }
  }
  if (words_.size() == most) return {};
  // Those that begin in the last n-gram.
  const size_t last = words_.size() - most;
  for (const size_t size : ngrams_.sizes()) {
    if (size == most) continue;
    for (size_t i = 0; i + size <= most; ++i) {
      if (!may_match(last + i)) continue;
      if (const Match match = match_at(last + i, size); match.number >= 0) return match;
    }
  }
  return {};
}

void NgramFilter::count(std::string_view text) {
  std::vector<int64_t> found;
  while (true) {
    const Match match = find_first(text);
    if (match.number < 0) break;
    found.push_back(match.number);
    text = CharacterPlaces(text).from(match.begin + match.characters + 1);
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  for (const int64_t number : found) ngrams_.count(number);
}

const std::vector<std::string_view>& NgramFilter::cut(std::string_view text) {
  parts_.clear();
  while (true) {
    const Match match = find_first(text);
    if (match.number < 0) {
      parts_.push_back(text);
      return parts_;
    }
    const CharacterPlaces places(text);
    int64_t end = match.begin - options_.remove_char_each_side;
    while (end > 0 && !(end < places.size() && places.ends_sentence(end))) --end;
    const std::string_view first = end > 0 ? places.before(end + 1) : std::string_view();
    int64_t begin = match.begin + match.characters + options_.remove_char_each_side;
    while (begin < places.size() && !places.ends_sentence(begin)) ++begin;
    const std::string_view second = places.from(begin + 1);
    const int64_t least = options_.filter_text_char_len;
    if (count_characters(first) > least) parts_.push_back(first);
    if (count_characters(second) <= least) return parts_;
    text = second;
  }
}

}  // namespace meg::cleaning
