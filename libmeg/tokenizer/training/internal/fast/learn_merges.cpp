// Words are runs of symbols that shrink in place. Of one merge, what changes is summed up by the
// neighbour first, in arrays that a symbol indexes, so that the table of all pairs is touched once
// a neighbour and not once an occurrence.
#include "libmeg/tokenizer/training/internal/learn_merges.h"

#include <algorithm>
#include <queue>

#include "libmeg/tokenizer/training/internal/fast/pair_counts.h"
#include "libmeg/tokenizer/training/internal/fast/place_store.h"

namespace meg::tokenizer::fast {
namespace {

constexpr uint32_t kNone = ~uint32_t{0};
constexpr size_t kMergesBetweenReports = 64;

struct Candidate {
  int64_t count;
  uint64_t pair;
  std::span<const uint32_t> words;  // ascending, each once

  bool operator<(const Candidate& other) const {
    return count != other.count ? count < other.count : pair > other.pair;
  }
};

/// What one merge does to the pairs of the merged ones' neighbours on one side.
class Neighbours {
 public:
  struct Change {
    int64_t count = 0;  // of the pairs that are new, and of those that are gone
    std::span<uint32_t> words;
  };

  void start(size_t symbols) {
    for (const uint32_t neighbour : touched_) changes_[neighbour] = Entry();
    touched_.clear();
    places_.clear();
    if (changes_.size() < symbols) changes_.resize(std::max(symbols, 2 * changes_.size()));
  }

  void add_count(uint32_t neighbour, int64_t count) { touch(neighbour).change.count += count; }

  /// word: not below that of the last call.
  void add_place(uint32_t neighbour, uint32_t word) {
    Entry& entry = touch(neighbour);
    if (entry.last_word == word) return;
    entry.last_word = word;
    ++entry.place_count;
    places_.push_back({neighbour, word});
  }

  const std::vector<uint32_t>& touched() const { return touched_; }

  const Change& operator[](uint32_t neighbour) const { return changes_[neighbour].change; }

  void sort_places(PlaceStore& store) {
    for (const uint32_t neighbour : touched_) {
      Entry& entry = changes_[neighbour];
      entry.change.words = store.take(entry.place_count);
      entry.place_count = 0;
    }
    for (const auto& [neighbour, word] : places_) {
      Entry& entry = changes_[neighbour];
      entry.change.words[entry.place_count++] = word;
    }
  }

 private:
  struct Entry {
    Change change;
    uint32_t last_word = kNone;
    uint32_t place_count = 0;
    bool is_touched = false;
  };

  Entry& touch(uint32_t neighbour) {
    Entry& entry = changes_[neighbour];
    if (!entry.is_touched) {
      entry.is_touched = true;
      touched_.push_back(neighbour);
    }
    return entry;
  }

  std::vector<Entry> changes_;  // by symbol
  std::vector<uint32_t> touched_;
  std::vector<std::pair<uint32_t, uint32_t>> places_;  // neighbours and words, by word
};

class Learner {
 public:
  Learner(const TrainingWords& words, TokenList& tokens) : tokens_(tokens) {
    symbols_.reserve(words.total_bytes());
    words_.reserve(words.size());
    for (size_t i = 0; i < words.size(); ++i) {
      const std::string_view word = words.word(i);
      words_.push_back({symbols_.size(), word.size(), words.count(i)});
      for (const char byte : word) {
        symbols_.push_back(tokens.byte_token(static_cast<uint8_t>(byte)));
      }
    }
    count_first_pairs(words);
  }

  Result<LearnedMerges> learn(const MergeGoal& goal, const LearnProgress& progress) {
    LearnedMerges merges;
    while (tokens_.size() < goal.vocab_size && !queue_.empty()) {
      Candidate top = queue_.top();
      queue_.pop();
      const int64_t count = counts_[top.pair];
      if (top.count != count) {
        top.count = count;
        queue_.push(top);
        continue;
      }
      if (count < 1 || count < goal.min_frequency) break;
      merge(top);
      merges.emplace_back(left_of(top.pair), right_of(top.pair));
      const bool is_due = progress && merges.size() % kMergesBetweenReports == 0;
      if (is_due && !progress(tokens_.size())) {
        return make_error(StatusCode::kCancelled, "interrupted");
      }
    }
    return merges;
  }

 private:
  struct Word {
    size_t begin;  // in symbols_
    size_t length;
    int64_t count;
  };

  static uint32_t left_of(uint64_t pair) { return static_cast<uint32_t>(pair >> 32); }

  static uint32_t right_of(uint64_t pair) { return static_cast<uint32_t>(pair); }

  /// Counts and queues the pairs of bytes: those of each byte are the neighbours on its right.
  void count_first_pairs(const TrainingWords& words) {
    std::vector<Neighbours> by_left(256);
    for (Neighbours& neighbours : by_left) neighbours.start(256);
    for (size_t i = 0; i < words.size(); ++i) {
      const std::string_view word = words.word(i);
      for (size_t at = 0; at + 1 < word.size(); ++at) {
        Neighbours& rights = by_left[static_cast<uint8_t>(word[at])];
        const auto right = static_cast<uint8_t>(word[at + 1]);
        rights.add_count(right, words.count(i));
        rights.add_place(right, static_cast<uint32_t>(i));
      }
    }
    for (size_t left = 0; left < by_left.size(); ++left) {
      by_left[left].sort_places(places_);
      for (const uint32_t right : by_left[left].touched()) {
        const uint64_t pair = pair_key(tokens_.byte_token(static_cast<uint8_t>(left)),
                                       tokens_.byte_token(static_cast<uint8_t>(right)));
        counts_[pair] = by_left[left][right].count;
        queue(pair, by_left[left][right]);
      }
    }
  }

  void merge(const Candidate& top) {
    const uint32_t a = left_of(top.pair);
    const uint32_t b = right_of(top.pair);
    const uint32_t joined = tokens_.join(a, b);
    lefts_.start(tokens_.size());
    rights_.start(tokens_.size());
    // Go in ascending order of words, which sort_places() relies on.
    for (size_t i = 0; i < top.words.size(); ++i) {
      prefetch(top.words, i);
      merge_in(top.words[i], a, b, joined);
    }
    for (const uint32_t x : lefts_.touched()) {
      counts_[pair_key(x, a)] -= lefts_[x].count;
      counts_[pair_key(x, joined)] += lefts_[x].count;
    }
    for (const uint32_t y : rights_.touched()) {
      counts_[pair_key(b, y)] -= rights_[y].count;
      counts_[pair_key(joined, y)] += rights_[y].count;
    }
    lefts_.sort_places(places_);
    rights_.sort_places(places_);
    for (const uint32_t x : lefts_.touched()) queue(pair_key(x, joined), lefts_[x]);
    for (const uint32_t y : rights_.touched()) queue(pair_key(joined, y), rights_[y]);
  }

  void prefetch(std::span<const uint32_t> words, size_t i) const {
    constexpr size_t kWordsAhead = 16;
    constexpr size_t kSymbolsAhead = 8;
    if (i + kWordsAhead < words.size()) __builtin_prefetch(&words_[words[i + kWordsAhead]]);
    if (i + kSymbolsAhead < words.size()) {
      __builtin_prefetch(&symbols_[words_[words[i + kSymbolsAhead]].begin]);
    }
  }

  void merge_in(uint32_t index, uint32_t a, uint32_t b, uint32_t joined) {
    Word& word = words_[index];
    uint32_t* const symbols = &symbols_[word.begin];
    size_t in = 0;
    // Up to the first pair nothing moves.
    while (in + 1 < word.length && (symbols[in] != a || symbols[in + 1] != b)) ++in;
    size_t out = in;
    while (in < word.length) {
      if (in + 1 == word.length || symbols[in] != a || symbols[in + 1] != b) {
        symbols[out++] = symbols[in++];
        continue;
      }
      in += 2;
      if (out > 0) add_left(symbols[out - 1], joined, index, word.count);
      symbols[out++] = joined;
      if (in < word.length) {
        rights_.add_count(symbols[in], word.count);
        rights_.add_place(symbols[in], index);
      }
    }
    word.length = out;
  }

  /// The pair of the joined token with itself is queued once: as a neighbour on the right.
  void add_left(uint32_t neighbour, uint32_t joined, uint32_t word, int64_t count) {
    lefts_.add_count(neighbour, count);
    (neighbour == joined ? rights_ : lefts_).add_place(neighbour, word);
  }

  void queue(uint64_t pair, const Neighbours::Change& change) {
    if (change.words.empty()) return;
    const int64_t count = counts_[pair];
    if (count > 0) queue_.push({count, pair, change.words});
  }

  TokenList& tokens_;
  std::vector<uint32_t> symbols_;  // of all words
  std::vector<Word> words_;
  PairCounts counts_;
  PlaceStore places_;
  std::priority_queue<Candidate> queue_;
  Neighbours lefts_, rights_;  // of one merge
};

}  // namespace

Result<LearnedMerges> learn_merges(const TrainingWords& words, const MergeGoal& goal,
                                   TokenList& tokens, const LearnProgress& progress) {
  if (words.size() >= kNone) {
    return make_error(StatusCode::kUnsupported, "expected fewer than {} distinct words, found {}",
                      kNone, words.size());
  }
  return Learner(words, tokens).learn(goal, progress);
}

}  // namespace meg::tokenizer::fast
