#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/evaluation/scoring.h"
#include "libmeg/tokenizer/tokenizer.h"

namespace meg::evaluation {

/// A text to take the perplexity of.
struct WikitextData {
  std::vector<int32_t> tokens;      ///< Of the detokenized text.
  int64_t num_original_tokens = 0;  ///< Words between single spaces of the text as it was.

  int64_t num_tokenized_tokens() const { return static_cast<int64_t>(tokens.size()); }
};

/// A whole file as one text, detokenized. Errors name the file: kNotFound and kIoError of opening;
/// kCorruption where it is not UTF-8; kInvalidArgument with fewer than two words or tokens, and
/// where the text has no ids.
/// Mirrors Megatron-LM tasks/zeroshot_gpt/datasets.py: _build_wikitext103_dataset.
Result<WikitextData> read_wikitext(const std::string& path, const tokenizer::Tokenizer& tokenizer);

/// Windows of sequence_length tokens that begin `overlapping_eval` tokens apart (at least 1); of
/// all but the first only the last overlapping_eval targets are asked about, so that each token but
/// the very first is a target once. An overlapping_eval above sequence_length leaves tokens out, as
/// Megatron does. Valid as long as tokens are.
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
