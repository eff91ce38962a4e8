#pragma once

#include <span>
#include <vector>

#include "libmeg/inference/generation/generation_engine.h"
#include "libmeg/nn/gpt_model.h"
#include "libmeg/tokenizer/tokenizer.h"

namespace meg::inference {

/// The best continuations of a prompt, best first. A beam that came to the stop token ends in it;
/// beams that did not are taken where the tokens run out before enough have.
/// Errors: check_length()'s; kOutOfRange for widths and counts out of their range.
/// Mirrors Megatron-LM megatron/text_generation/generation.py:
/// beam_search_and_return_on_first_stage, over the true vocabulary.
Result<std::vector<Beam>> beam_search(nn::GptModel& model, const Tokenizer& tokenizer,
                                      std::span<const int32_t> prompt,
                                      const BeamSearchOptions& options);

}  // namespace meg::inference
