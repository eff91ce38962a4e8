#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libmeg/core/result.h"

namespace meg::inference {

/// How the next token is drawn from the logits. Names and defaults are those of Megatron's server.
/// Mirrors Megatron-LM megatron/text_generation/sampling.py: sample.
struct SamplingOptions {
  double temperature = 1;  ///< > 0; divides the logits.
  int64_t top_k = 0;       ///< 0: off; 1: the most likely token (greedy, no random number drawn).
  double top_p = 0;        ///< 0: off; to 1. Not together with top_k.
  double top_p_decay = 0;  ///< top_p is multiplied by it after each token; 0: off.
  double top_p_bound = 0;  ///< What top_p does not fall below.
  uint64_t seed = 0;       ///< Of this request's own generator: what others ask does not matter.
};

/// What ends a text before its tokens are spent.
struct StopRules {
  bool on_eod = true;
  bool on_double_eol = false;  ///< A token that is two newlines, or two tokens that are one each.
  bool on_eol = false;         ///< A token that ends in a newline.
};

/// One text to go on with.
struct GenerationRequest {
  std::vector<int32_t> prompt = {};  ///< At least one id, each below the tokenizer's vocab_size().
  int64_t tokens_to_generate = 64;   ///< >= 0; prompt and these fit into the model's positions.
  SamplingOptions sampling = {};
  StopRules stop = {};
  bool prevent_newline_after_colon = false;
  int64_t no_repeat_ngram_size = 0;  ///< No run of so many tokens comes twice; 0: off.
  bool logprobs = false;             ///< Whether GeneratedText::logprobs is wanted.
};

/// What became of a request.
struct GeneratedText {
  std::vector<int32_t> tokens;  ///< The prompt and what follows it.
  size_t prompt_size = 0;       ///< Tokens of the prompt.
  /// log p of tokens[1], tokens[2], ... given those before, over the true vocabulary; tokens.size()
  /// - 1.
  std::vector<float> logprobs;
};

/// A token that step() made.
struct GenerationEvent {
  int64_t request = 0;           ///< add()'s answer.
  std::optional<int32_t> token;  ///< Empty where tokens_to_generate was 0.
  /// Set with the request's last token; the request is forgotten.
  std::optional<GeneratedText> finished;
};

/// A model that goes on with many texts at a time: requests may be added and cancelled between
/// steps and do not change each other's answers. One thread.
class GenerationEngine {
 public:
  virtual ~GenerationEngine() = default;

  /// What is wrong with a request, before it waits: kInvalidArgument, kOutOfRange.
  virtual Status check(const GenerationRequest& request) const = 0;

  /// Whether add() would take one more such request now; where not, step() makes room in time.
  virtual bool has_room(const GenerationRequest& request) const = 0;

  /// Takes a request up and returns its number. Errors: check()'s; kResourceExhausted without room.
  virtual Result<int64_t> add(GenerationRequest request) = 0;

  /// Forgets a request that is not finished.
  virtual void cancel(int64_t request) = 0;

  /// Requests that are not finished.
  virtual int64_t active() const = 0;

  /// One token for every active request.
  virtual Result<std::vector<GenerationEvent>> step() = 0;
};

/// One found continuation.
struct Beam {
  std::vector<int32_t> tokens;  ///< The prompt and what follows it.
  size_t prompt_size = 0;
  double score = 0;  ///< Sum of log probabilities over length ^ length_penalty.
};

struct BeamSearchOptions {
  int64_t beam_width = 1;
  int64_t tokens_to_generate = 64;
  int32_t stop_token = 0;
  double length_penalty = 1;
  int64_t num_return_gen = 1;  ///< At most beam_width.
  bool prevent_newline_after_colon = false;
};

}  // namespace meg::inference
