#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/evaluation/scoring.h"
#include "libmeg/tokenizer/interface/tokenizer.h"

namespace meg::evaluation {

/// A text whose perplexity is measured.
struct WikitextData {
  std::vector<int32_t> tokens;          ///< Tokens of the detokenized text.
  int64_t num_original_tokens = 0;      ///< Words between single spaces of the text as it was.
  std::vector<std::string> notes = {};  ///< What the user should know about the file.

  int64_t num_tokenized_tokens() const { return static_cast<int64_t>(tokens.size()); }
};

/// Reads a whole file as one text and detokenizes it. Errors name the file: kNotFound and kIoError
/// from opening; kCorruption if it is not UTF-8; kInvalidArgument if it has fewer than two words or
/// tokens, or no ids.
/// Mirrors Megatron-LM tasks/zeroshot_gpt/datasets.py: _build_wikitext103_dataset.
Result<WikitextData> read_wikitext(const std::string& path, const tokenizer::Tokenizer& tokenizer);

/// Windows of sequence_length tokens that begin `overlapping_eval` (at least 1) tokens apart. In
/// all but the first, only the last overlapping_eval targets count, so that each token except the
/// very first is a target once. An overlapping_eval above sequence_length skips tokens, as in
/// Megatron. Valid as long as `tokens`.
/// Mirrors Megatron-LM tasks/zeroshot_gpt/datasets.py: _LMDataset, without its windows that ask
/// about nothing.
std::vector<ScoringSequence> wikitext_windows(std::span<const int32_t> tokens,
                                              int64_t sequence_length, int64_t overlapping_eval);

/// What Megatron prints of it.
struct WikitextSummary {
  double avg_loss = 0;      ///< Sum of losses / (num_tokenized_tokens - 1).
  double ppl = 0;           ///< e ^ avg_loss, at most e ^ 20.
  double token_ratio = 0;   ///< (num_tokenized_tokens - 1) / (num_original_tokens - 1)
  double adjusted_ppl = 0;  ///< Per original token: e ^ (avg_loss * token_ratio), at most e ^ 20.
};

WikitextSummary summarize_wikitext(const WikitextData& data, std::span<const SequenceScore> scores);

}  // namespace meg::evaluation
