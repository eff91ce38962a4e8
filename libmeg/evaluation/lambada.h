#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/evaluation/scoring.h"
#include "libmeg/tokenizer/interface/tokenizer.h"

namespace meg::evaluation {

/// The target of a LAMBADA example.
enum class LambadaTarget : uint8_t {
  /// The last token of the text.
  kLastToken,
  /// --strict-lambada: the last word, with one space before it, tokenized by itself; the context is
  /// all the text before the word, stripped.
  kLastWord,
};

/// One example as tokens. No token is put before the context.
struct LambadaExample {
  std::vector<int32_t> tokens;  ///< Context, then target; both not empty.
  int64_t targets = 0;          ///< Tokens of the target.
  int64_t cut = 0;              ///< Tokens of the text before these.

  int64_t context() const { return static_cast<int64_t>(tokens.size()) - targets; }
};

/// The texts of a LAMBADA file: JSON lines, {"text": ...}. Errors name file and line: kNotFound and
/// kIoError from opening; kCorruption if a line is not such an object or not UTF-8;
/// kInvalidArgument for an empty file.
Result<std::vector<std::string>> read_lambada_texts(const std::string& path);

/// Converts texts to examples. A context is truncated on the left if, together with the target
/// except its last token, it has more than sequence_length tokens. path: for errors.
/// kInvalidArgument, with the line, if a text has no context, no target or no ids, or if the target
/// alone is too long.
/// Mirrors Megatron-LM tasks/zeroshot_gpt/datasets.py: _LambadaDataset.get_tokens.
Result<std::vector<LambadaExample>> lambada_examples(std::span<const std::string> texts,
                                                     LambadaTarget target,
                                                     const tokenizer::Tokenizer& tokenizer,
                                                     int64_t sequence_length,
                                                     const std::string& path);

/// Scores the examples of several definitions: [definition][example]. If two definitions give the
/// same tokens for a text, the model runs once. If there are several ranks, the first one calls it
/// while the others call follow_scoring().
Result<std::vector<std::vector<SequenceScore>>> score_lambada(
    nn::GptModel& model, std::span<const std::vector<LambadaExample>> definitions,
    const ScoringOptions& options, const parallel::ParallelState& ranks = {});

/// The result over all examples.
struct LambadaSummary {
  int64_t examples = 0;
  int64_t correct = 0;    ///< The most likely token is the target's at every place.
  double accuracy = 0;    ///< correct / examples
  double perplexity = 0;  ///< e ^ -(sum of the targets' log probabilities / examples)
};

LambadaSummary summarize_lambada(std::span<const LambadaExample> examples,
                                 std::span<const SequenceScore> scores);

/// Whether the most likely tokens are the target.
bool is_correct(const LambadaExample& example, const SequenceScore& score);

}  // namespace meg::evaluation
