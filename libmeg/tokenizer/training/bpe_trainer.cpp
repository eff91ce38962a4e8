#include "libmeg/tokenizer/training/bpe_trainer.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "libmeg/text/printable.h"
#include "libmeg/text/utf8.h"
#include "libmeg/tokenizer/models/internal/bpe/byte_alphabet.h"
#include "libmeg/tokenizer/training/internal/learn_merges.h"
#include "libmeg/tokenizer/training/internal/table_counter.h"
#include "libmeg/tokenizer/training/internal/training_pattern.h"

// Trains as Hugging Face's tokenizers does, to the same merges and ids: words are counted by
// several counters, each with a table of its own, and merges are learned from the counts. Words
// that do not fit the memory budget are spilled to sorted runs, which are merged with the tables at
// the end; counts add up, so what was spilled when does not matter.

namespace meg::tokenizer {
namespace {

constexpr int64_t kBytes = 256;

Status check_special_tokens(const std::vector<std::string>& tokens) {
  std::set<std::string_view> seen;
  for (const std::string& token : tokens) {
    const auto wrong = [&](std::string_view what) {
      return make_error(StatusCode::kInvalidArgument, "special token {}: {}",
                        text::printable(token), what);
    };
    if (token.empty()) return wrong("expected at least one character");
    if (text::find_invalid_utf8(token) != token.npos) return wrong("expected UTF-8");
    if (!seen.insert(token).second) return wrong("it was given twice");
    const text::DecodedCodePoint first = text::decode_code_point(token);
    // Its id would be that of the byte.
    if (first.size == token.size() && character_byte(first.code_point)) {
      return wrong("it is already the token of a byte");
    }
  }
  return {};
}

Status check_options(const BpeTrainerOptions& options, int counters) {
  MEG_RETURN_IF_ERROR(check_special_tokens(options.special_tokens));
  const int64_t least = kBytes + std::ssize(options.special_tokens);
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (options.vocab_size < least || options.vocab_size > kMost) {
    return make_error(StatusCode::kInvalidArgument,
                      "vocab_size: expected {} (256 bytes and {} special tokens) to {}, found {}",
                      least, options.special_tokens.size(), kMost, options.vocab_size);
  }
  if (options.min_frequency < 0 || options.memory_budget < 1 || counters < 1) {
    return make_error(StatusCode::kInvalidArgument,
                      "min_frequency, memory_budget, counters: expected at least 0, 1 and 1, found "
                      "{}, {} and {}",
                      options.min_frequency, options.memory_budget, counters);
  }
  return {};
}

/// The merges by rank: one that was learned again has its last place, as in a model of Hugging
/// Face's tokenizers.
LearnedMerges last_of_each(const LearnedMerges& learned) {
  std::set<LearnedMerges::value_type> seen;
  LearnedMerges merges;
  for (auto pair = learned.rbegin(); pair != learned.rend(); ++pair) {
    if (seen.insert(*pair).second) merges.push_back(*pair);
  }
  std::reverse(merges.begin(), merges.end());
  return merges;
}

}  // namespace

struct BpeTrainer::State {
  State(BpeTrainerOptions chosen, PreTokenizer words)
      : options(std::move(chosen)), pre_tokenizer(std::move(words)), spilled(options.spill_path) {}

  /// What all counters counted.
  Result<TrainingWords> gather() {
    // Runs are sorted by word, so that all counts of one word come together.
    std::vector<std::unique_ptr<WordRun>> runs = spilled.runs();
    for (const auto& counter : counters) runs.push_back(counter->take_run());
    std::vector<WordRun*> all;
    for (const auto& run : runs) all.push_back(run.get());
    TrainingWords words;
    MEG_RETURN_IF_ERROR(merge_runs(all, [&](const CountedWord& counted) -> Status {
      words.add(counted.word, counted.count);
      return {};
    }));
    return words;
  }

  const BpeTrainerOptions options;
  const PreTokenizer pre_tokenizer;
  SpilledRuns spilled;
  std::vector<std::unique_ptr<TableCounter>> counters;
};

BpeTrainer::BpeTrainer(std::unique_ptr<State> state) : state_(std::move(state)) {}

BpeTrainer::BpeTrainer(BpeTrainer&&) noexcept = default;
BpeTrainer& BpeTrainer::operator=(BpeTrainer&&) noexcept = default;
BpeTrainer::~BpeTrainer() = default;

Result<BpeTrainer> BpeTrainer::create(const BpeTrainerOptions& options, int counters) {
  MEG_RETURN_IF_ERROR(check_options(options, counters));
  MEG_ASSIGN_OR_RETURN(PreTokenizer pre_tokenizer, training_pre_tokenizer(options.pattern));
  auto state = std::make_unique<State>(options, std::move(pre_tokenizer));
  // The budget is shared out evenly: each counter spills by itself.
  const auto limit = static_cast<size_t>(options.memory_budget / counters);
  for (int i = 0; i < counters; ++i) {
    state->counters.push_back(
        std::make_unique<TableCounter>(state->pre_tokenizer, limit, state->spilled));
  }
  return BpeTrainer(std::move(state));
}

WordCounter& BpeTrainer::counter(int index) {
  return *state_->counters[static_cast<size_t>(index)];
}

Result<TrainedBpe> BpeTrainer::train(const std::function<bool(int64_t tokens)>& progress) {
  TrainedBpe trained;
  trained.pattern = state_->options.pattern;
  trained.special_tokens = state_->options.special_tokens;
  trained.spilled_bytes = state_->spilled.bytes();
  MEG_ASSIGN_OR_RETURN(const TrainingWords words, state_->gather());
  for (const auto& counter : state_->counters) trained.words += counter->words();
  trained.distinct_words = static_cast<int64_t>(words.size());
  TokenList tokens(trained.special_tokens);
  const MergeGoal goal{static_cast<size_t>(state_->options.vocab_size),
                       state_->options.min_frequency};
  LearnProgress report;
  if (progress) {
    report = [&](size_t count) { return progress(static_cast<int64_t>(count)); };
  }
  // The reference implementation (reference/learn_merges) learns the same; tests hold them equal.
  MEG_ASSIGN_OR_RETURN(const LearnedMerges learned,
                       fast::learn_merges(words, goal, tokens, report));
  trained.merges = last_of_each(learned);
  trained.tokens = std::move(tokens).take();
  return trained;
}

}  // namespace meg::tokenizer
