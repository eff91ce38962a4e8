#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libmeg/serving/generation_engine.h"
#include "tools/common/flag_groups/inference_flags.h"

namespace meg::tools {

/// The flags of the program generate.
struct GenerateFlags {
  InferenceFlags inference;

  std::vector<std::string> prompts;  ///< Exactly one of these four.
  std::optional<std::string> prompt_file;
  std::optional<int64_t> num_samples;
  bool interactive = false;

  std::optional<int64_t> prompt_file_num_truncate;

  std::optional<int64_t> prompt_tokens;
  std::optional<int64_t> tokens_to_generate, out_seq_length;
  serving::SamplingOptions sampling;  ///< Without its seed.
  bool greedy = false;
  int64_t no_repeat_ngram_size = 0;
  bool prevent_newline_after_colon = false;
  std::optional<int64_t> beam_width;
  double length_penalty = 1;
  bool ignore_eod = false, stop_on_eol = false, stop_on_double_eol = false;

  std::optional<std::string> output;
  bool logprobs = false;
};

/// The whole command line. An exit code where the program should end now.
std::optional<int> parse_generate_flags(int argc, const char* const* argv, GenerateFlags& flags);

/// What is requested after a prompt: by default 64 tokens, fewer where the model has no positions
/// for them. number: of the text, from 0; its seed is --seed and this.
serving::GenerationRequest request_of(const GenerateFlags& flags, const app::LoadedModel& loaded,
                                      std::vector<int32_t> prompt, int64_t number);

/// A prompt's first --prompt-tokens tokens.
void cut_prompt(const GenerateFlags& flags, std::vector<int32_t>& prompt);

/// The prompts of --prompts, --prompt-file or --num-samples, cut by cut_prompt(). Lines of
/// whitespace are passed over. Errors: kCorruption, kInvalidArgument with the file's line; what
/// reading gives.
Result<std::vector<std::vector<int32_t>>> read_prompts(const GenerateFlags& flags,
                                                       const tokenizer::Tokenizer& tokenizer);

}  // namespace meg::tools
