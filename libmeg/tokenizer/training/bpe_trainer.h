#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libmeg/base/result.h"

namespace meg::tokenizer {

/// The options for training a byte-level BPE tokenizer.
struct BpeTrainerOptions {
  int64_t vocab_size = 0;     ///< tokens: special ones, the 256 bytes, and those that merges make
  int64_t min_frequency = 0;  ///< minimum number of occurrences of a pair to be merged
  std::vector<std::string> special_tokens;  ///< their ids are 0 and on

  /// What splits texts into words, which merges never cross: a name of training_patterns() or a
  /// regular expression in the dialect of Hugging Face's tokenizers.
  std::string pattern = "gpt2";

  /// Memory for the word counts of all counters before they are written to a file, in bytes.
  int64_t memory_budget = int64_t{2} << 30;
  std::string spill_path;  ///< That file, which is removed in the end.
};

/// Names of patterns.
std::vector<std::string_view> training_patterns();

/// A tokenizer that was trained.
struct TrainedBpe {
  std::string pattern;                      ///< As in the options.
  std::vector<std::string> special_tokens;  ///< As in the options.
  std::vector<std::string> tokens;          ///< By id, written as vocab.json does.

  /// Ids of pairs, by rank, each once.
  std::vector<std::pair<uint32_t, uint32_t>> merges;

  // Totals of the corpus.
  int64_t words = 0;           ///< With two bytes or more.
  int64_t distinct_words = 0;  ///< Distinct ones among these.
  int64_t spilled_bytes = 0;   ///< Word counts that went to the file.
};

/// Counts the words of texts for a BpeTrainer; belongs to one thread.
class WordCounter {
 public:
  virtual ~WordCounter() = default;

  /// text: valid UTF-8 with text::kTextPadding readable bytes after it. Errors: those of writing
  /// the spill file.
  virtual Status count(std::string_view text) = 0;
};

/// Trains byte-level BPE: first counters count all texts, then train() learns the merges. The
/// result depends only on the texts, not on their order, the counters or the memory budget.
/// Its merges are those of Hugging Face tokenizers: trainers.BpeTrainer with initial_alphabet =
/// pre_tokenizers.ByteLevel.alphabet().
class BpeTrainer {
 public:
  /// counters: at least 1. kInvalidArgument for invalid options, kUnsupported for a pattern that is
  /// not a regular expression or means something else to other programs.
  static Result<BpeTrainer> create(const BpeTrainerOptions& options, int counters);
  BpeTrainer(BpeTrainer&&) noexcept;
  BpeTrainer& operator=(BpeTrainer&&) noexcept;
  ~BpeTrainer();

  /// index: below the number of counters.
  WordCounter& counter(int index);

  /// Called once, when the counters are done. progress: asked now and then with the number of
  /// tokens so far; false ends with kCancelled; may be empty.
  Result<TrainedBpe> train(const std::function<bool(int64_t tokens)>& progress);

 private:
  struct State;
  explicit BpeTrainer(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace meg::tokenizer
