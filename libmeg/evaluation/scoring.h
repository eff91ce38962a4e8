#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "libmeg/base/progress.h"
#include "libmeg/base/result.h"
#include "libmeg/nn/gpt_model.h"
#include "libmeg/parallel/parallel_state.h"

namespace meg::evaluation {

/// Tokens of which the last `targets` are scored, each given those before it.
struct ScoringSequence {
  std::span<const int32_t> tokens;  ///< At least targets + 1.
  int64_t targets = 0;              ///< At least 1.
  int64_t text = 0;                 ///< For errors: the number of the text that it is part of,
  int64_t first_token = 0;          ///< and where it begins there.
};

/// The model's scores for a sequence's targets, in order.
struct SequenceScore {
  std::vector<int32_t> predicted;  ///< The most likely token at each.
  std::vector<float> logprobs;     ///< Log probabilities of the targets.

  /// The sum over all targets.
  double logprob() const;
};

struct ScoringOptions {
  /// Tokens of the true vocabulary: higher ids are padding, which is never predicted and has no
  /// share of the probability.
  int64_t vocab_size = 0;
  /// Tokens per batch, including padding; 0: a size that is fast on the device.
  int64_t batch_tokens = 0;
  /// Sequences of a batch, instead of a number of tokens.
  std::optional<int64_t> batch_sequences;
  /// Called before each batch with its number, from 0; of several copies of the model the first
  /// one's.
  std::function<void(int64_t)> on_batch;
  /// Called after each batch: documents are sequences, tokens those that went in.
  ProgressCallback progress;
};

/// Runs the model over sequences, longest first in batches of similar length, with the output layer
/// only on the rows that predict targets. The model must be in evaluation mode.
/// Returns a score for each sequence, in the order given.
/// ranks: those that hold the model's parts, maybe several copies of it, which share the batches.
/// All of them call it; the sequences and options are the first rank's, and it alone gets scores.
/// Errors: kInvalidArgument for sequences without a target or context and for a vocabulary larger
/// than the model's; kOutOfRange for ids outside the vocabulary; kCorruption, naming text and
/// token, if a target's logits are not finite; kCancelled where progress says so; those of
/// GptModel::hidden_states.
Result<std::vector<SequenceScore>> score_sequences(nn::GptModel& model,
                                                   std::span<const ScoringSequence> sequences,
                                                   const ScoringOptions& options,
                                                   const parallel::ParallelState& ranks = {});

/// Called by ranks other than the first while the first one calls score_sequences().
Status follow_scoring(nn::GptModel& model, const parallel::ParallelState& ranks);

/// The batches that score_sequences makes: numbers of sequences, longest first.
std::vector<std::vector<size_t>> scoring_batches(std::span<const ScoringSequence> sequences,
                                                 const ScoringOptions& options);

}  // namespace meg::evaluation
