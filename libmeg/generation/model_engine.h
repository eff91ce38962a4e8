#pragma once

#include <cstdint>
#include <memory>

#include "libmeg/nn/gpt_model.h"
#include "libmeg/parallel/parallel_state.h"
#include "libmeg/serving/generation_engine.h"
#include "libmeg/tokenizer/interface/tokenizer.h"

namespace meg::generation {

/// The capacity of an engine.
struct EngineOptions {
  int64_t max_slots = 16;  ///< Texts that a step continues.
  /// Tokens of them all, prompts and answers; 0: as many as the slots have positions for.
  int64_t max_tokens = 0;
  /// Maximum tokens of all texts of all beam searches, which allocate memory as needed; 0:
  /// max_tokens.
  int64_t max_beam_tokens = 0;
  int64_t max_sequence_length = 0;  ///< Tokens of one text; 0: the model's positions.
};

/// An engine over a model, which it alone uses from now on, without dropout; model and
/// tokenizer are to outlive it. A text does not depend on other texts in the batch: bit for bit on
/// a CPU if max_slots is at most 64 (AVX2 or better), otherwise except for the order of sums.
/// ranks: those that hold the model's parts; the first has the engine, the others follow it, as
/// long as it lives.
/// Errors: kInvalidArgument where the tokenizer has more tokens than the model, options are out
/// of their range or the ranks hold several copies of the model; kResourceExhausted where the cache
/// does not fit.
Result<std::unique_ptr<serving::GenerationEngine>> create_generation_engine(
    nn::GptModel& model, const tokenizer::Tokenizer& tokenizer, const EngineOptions& options,
    const parallel::ParallelState& ranks = {});

/// Called by the other ranks meanwhile, each with its part of the model. Errors: those of this
/// rank's part; kIoError if a rank has died.
Status follow_generation_engine(nn::GptModel& model, const parallel::ParallelState& ranks);

}  // namespace meg::generation
