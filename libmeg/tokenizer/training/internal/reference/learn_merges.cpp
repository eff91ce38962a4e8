#include "libmeg/tokenizer/training/internal/learn_merges.h"

#include <map>
#include <queue>
#include <set>

// Byte-pair encoding as it is described: join the pair that occurs most often, count again, repeat.
// A queue has the pairs by count; counts that have fallen meanwhile are put right when a pair comes
// to the top, as in Hugging Face's tokenizers. Among pairs of one count the smaller one by ids goes
// first, which decides the merges.

namespace meg::tokenizer::reference {
namespace {

using Pair = std::pair<uint32_t, uint32_t>;
using Places = std::map<Pair, std::set<size_t>>;  // the words in which pairs came up

struct Candidate {
  int64_t count;
  Pair pair;
  std::set<size_t> words;

  bool operator<(const Candidate& other) const {
    return count != other.count ? count < other.count : pair > other.pair;
  }
};

class Learner {
 public:
  Learner(const TrainingWords& words, TokenList& tokens) : words_(words), tokens_(tokens) {
    Places places;
    for (size_t i = 0; i < words.size(); ++i) {
      std::vector<uint32_t>& symbols = symbols_.emplace_back();
      for (const char byte : words.word(i)) {
        symbols.push_back(tokens.byte_token(static_cast<uint8_t>(byte)));
      }
      for (size_t at = 0; at + 1 < symbols.size(); ++at) {
        change({symbols[at], symbols[at + 1]}, 1, i, places);
      }
    }
    queue(places);
  }

  LearnedMerges learn(const MergeGoal& goal) {
    LearnedMerges merges;
    while (tokens_.size() < goal.vocab_size && !queue_.empty()) {
      Candidate top = queue_.top();
      queue_.pop();
      // Stale: the count has changed since the pair was queued.
      if (top.count != counts_[top.pair]) {
        top.count = counts_[top.pair];
        queue_.push(std::move(top));
        continue;
      }
      // Everything else in the queue occurs no more often.
      if (top.count < 1 || top.count < goal.min_frequency) break;
      merges.push_back(top.pair);
      const uint32_t joined = tokens_.join(top.pair.first, top.pair.second);
      Places places;
      for (const size_t word : top.words) merge(word, top.pair, joined, places);
      queue(places);
    }
    return merges;
  }

 private:
  void change(Pair pair, int64_t sign, size_t word, Places& places) {
    counts_[pair] += sign * words_.count(word);
    if (sign > 0) places[pair].insert(word);
  }

  void merge(size_t word, Pair pair, uint32_t joined, Places& places) {
    std::vector<uint32_t>& symbols = symbols_[word];
    // Left to right, so that of "aaa" the first two are joined. What is joined may itself be the
    // left neighbour of the next.
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      if (Pair(symbols[i], symbols[i + 1]) != pair) continue;
      symbols[i] = joined;
      symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(i) + 1);
      if (i > 0) {
        change({symbols[i - 1], pair.first}, -1, word, places);
        change({symbols[i - 1], joined}, 1, word, places);
      }
      if (i + 1 < symbols.size()) {
        change({pair.second, symbols[i + 1]}, -1, word, places);
        change({joined, symbols[i + 1]}, 1, word, places);
      }
    }
  }

  void queue(const Places& places) {
    for (const auto& [pair, words] : places) {
      if (counts_[pair] > 0) queue_.push({counts_[pair], pair, words});
    }
  }

  const TrainingWords& words_;
  TokenList& tokens_;
  std::vector<std::vector<uint32_t>> symbols_;  // of each word
  std::map<Pair, int64_t> counts_;
  std::priority_queue<Candidate> queue_;
};

}  // namespace

LearnedMerges learn_merges(const TrainingWords& words, const MergeGoal& goal, TokenList& tokens) {
  return Learner(words, tokens).learn(goal);
}

}  // namespace meg::tokenizer::reference
