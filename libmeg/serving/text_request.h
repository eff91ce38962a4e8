#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/serving/generation_engine.h"

namespace meg::serving {

// Megatron's server has the same maxima.
inline constexpr double kMaxTemperature = 100;
inline constexpr int64_t kMaxTopK = 1000;

/// The defaults and limits that a server sets for requests.
struct RequestRules {
  SamplingOptions sampling;  ///< Defaults for options that a request does not set.
  int64_t max_tokens_to_generate = 1024;
};

/// The beam search that a request asks for.
struct BeamRequest {
  int64_t beam_width = 1;
  std::optional<int32_t> stop_token;  ///< Empty: the tokenizer's end of document.
  double length_penalty = 1;
};

/// One request of Megatron's form, every value of it checked.
struct TextRequest {
  std::vector<std::string> prompts;  ///< 1 to 128, valid UTF-8; empty ones only with add_BOS.
  int64_t tokens_to_generate = 64;
  bool logprobs = false;
  SamplingOptions sampling;  ///< Without its seed.
  std::optional<uint64_t> random_seed;
  bool add_BOS = false;
  StopRules stop;
  bool prevent_newline_after_colon = false;
  bool no_log = false;
  std::optional<BeamRequest> beam;
};

/// body: JSON with the keys of Megatron's `PUT /api`. Unknown keys are errors. kInvalidArgument
/// with one sentence that names the key. Mirrors Megatron-LM megatron/text_generation_server.py:
/// MegatronGenerate.put.
Result<TextRequest> read_text_request(std::string_view body, const RequestRules& rules);

}  // namespace meg::serving
