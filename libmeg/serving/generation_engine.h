#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libmeg/base/result.h"

namespace meg::serving {

/// How the next token is sampled from the logits. Names and defaults are those of Megatron's
/// server. Mirrors Megatron-LM megatron/text_generation/sampling.py: sample.
struct SamplingOptions {
  double temperature = 1;  ///< > 0; divides the logits. Below 1e-30 as top_k 1.
  int64_t top_k = 0;       ///< 0: off; 1: the most likely token (greedy, no random number drawn).
  double top_p = 0;        ///< 0: off; to 1. Not together with top_k.
  double top_p_decay = 0;  ///< top_p is multiplied by it after each token; 0: off.
  double top_p_bound = 0;  ///< Lower bound of top_p.
  uint64_t seed =
      0;  ///< Seed of this request's own generator, so that other requests have no influence.
};

/// What ends a text before its maximum number of tokens.
struct StopRules {
  bool on_eod = true;
  bool on_double_eol = false;  ///< A token that is two newlines, or two tokens that are one each.
  bool on_eol = false;         ///< A token that ends in a newline.
};

/// Searches for the most likely texts, instead of sampling one token by token.
struct BeamSearchOptions {
  int64_t beam_width = 1;      ///< Texts that are held at a time.
  int64_t num_return_gen = 1;  ///< At most beam_width.
  int32_t stop_token = 0;      ///< Ends a text; an id that no token has ends none.
  double length_penalty = 1;   ///< -kMaxLengthPenalty to kMaxLengthPenalty.
};

/// Beyond it scores are 0 or infinite, whatever the texts are.
inline constexpr double kMaxLengthPenalty = 10;

/// The most that GenerationRequest::top_logprobs may be.
inline constexpr int64_t kMaxTopLogprobs = 20;

/// What is added to logits may lie this far from 0, as in OpenAI's API.
inline constexpr double kMaxLogitBias = 100;
inline constexpr double kMaxPenalty = 2;

/// One text to complete.
struct GenerationRequest {
  std::vector<int32_t> prompt = {};  ///< At least one id, each below the tokenizer's vocab_size().
  int64_t tokens_to_generate = 64;   ///< >= 0; prompt and these fit into the model's positions.
  SamplingOptions sampling = {};     ///< Not looked at with beam; nor is stop.
  StopRules stop = {};
  bool prevent_newline_after_colon = false;
  int64_t no_repeat_ngram_size = 0;  ///< No run of this many tokens occurs twice; 0: off.
  bool logprobs = false;     ///< Whether GeneratedText::logprobs is wanted; not together with beam.
  int64_t top_logprobs = 0;  ///< Alternatives at each place, 0 to kMaxTopLogprobs; with logprobs.
  /// Tokens and what is added to their logits before anything else, each token once. It, as the
  /// penalties, changes what is drawn and no log probability. Not together with beam, as they.
  std::vector<std::pair<int32_t, double>> logit_bias = {};
  double presence_penalty = 0;   ///< Subtracted from the logit of a token that the answer has,
  double frequency_penalty = 0;  ///< and as often as the answer has it; the prompt does not count.
  std::optional<BeamSearchOptions> beam = {};
};

/// A token that could come at a place.
struct TokenLogprob {
  int32_t token = 0;
  float logprob = 0;
};

/// A text that a beam search has found.
struct Beam {
  std::vector<int32_t> tokens;  ///< The prompt and what follows it.
  size_t prompt_size = 0;
  double score = 0;  ///< Sum of log probabilities over length ^ length_penalty.
};

/// The result of a request.
struct GeneratedText {
  std::vector<int32_t> tokens;  ///< The prompt and what follows it.
  size_t prompt_size = 0;       ///< Tokens of the prompt.
  /// log p of tokens[1], tokens[2], ... given those before, over the true vocabulary; tokens.size()
  /// - 1.
  std::vector<float> logprobs;
  /// The most likely tokens for the places of `logprobs`, best first; the same token has the same
  /// number in both. Empty without top_logprobs.
  std::vector<std::vector<TokenLogprob>> top_logprobs;
  bool stopped = false;  ///< A stop rule or end() ended it, not its maximum number of tokens.
  /// The results of a beam search, best first; `tokens` are those of the first one.
  std::vector<Beam> beams;
};

/// The result of step() for a request.
struct GenerationEvent {
  int64_t request = 0;  ///< add()'s answer.
  /// Empty where tokens_to_generate was 0, while the prompt is read, and with beam.
  std::optional<int32_t> token;
  /// What the step has added to those of the text: of places of the prompt, then of `token`.
  std::vector<float> logprobs = {};
  std::vector<std::vector<TokenLogprob>> top_logprobs = {};
  /// Set with the request's last token, or with an error of this request alone; the engine then
  /// drops the request.
  std::optional<Result<GeneratedText>> finished;
};

/// What an engine has done since it was made, and what it holds now.
struct EngineCounters {
  int64_t steps = 0;
  int64_t step_texts = 0;        ///< That the last step continued.
  int64_t step_tokens = 0;       ///< That the last step's model read.
  int64_t prompt_tokens = 0;     ///< Of prompts, read in all steps
  int64_t reused_tokens = 0;     ///< or found in the cache.
  int64_t generated_tokens = 0;  ///< In all steps, without those of beam searches.
  int64_t held_tokens = 0;       ///< For which the texts under way have space in the cache.
  int64_t max_held_tokens = 0;
};

/// A model that completes many texts at a time: requests may be added and cancelled between
/// steps and do not change each other's answers. One thread.
class GenerationEngine {
 public:
  virtual ~GenerationEngine() = default;

  /// Checks a request before it is queued: kInvalidArgument, kOutOfRange.
  virtual Status check(const GenerationRequest& request) const = 0;

  /// Whether add() would accept one more such request now; if not, step() frees space in time.
  /// Requests with and without beam do not use each other's space.
  virtual bool has_room(const GenerationRequest& request) const = 0;

  /// Adds a request and returns its number. Errors: check()'s; kResourceExhausted if there is no
  /// space.
  virtual Result<int64_t> add(GenerationRequest request) = 0;

  /// Cancels a request that is not finished.
  virtual void cancel(int64_t request) = 0;

  /// Ends a text, not a beam search, that is not finished: what has been made of it.
  virtual GeneratedText end(int64_t request) = 0;

  /// Requests that are not finished.
  virtual int64_t active() const = 0;

  /// The number of them with `beam`.
  virtual int64_t active_beam_searches() const = 0;

  /// Tokens of prompts that a step reads, or a little more; the rest waits for the next steps.
  virtual int64_t prompt_tokens_per_step() const = 0;

  /// One token for every active request whose prompt is read, or for each text that its beam search
  /// holds, and pieces of the other prompts.
  virtual Result<std::vector<GenerationEvent>> step() = 0;

  virtual EngineCounters counters() const = 0;

  /// The error that the engine cannot recover from, after which it accepts no requests.
  virtual Status lost() const { return {}; }

  /// The error of the model in the last request that ended, or where the engine was made if none
  /// has; OK if the model could complete it. A model that is well never fails.
  virtual Status failure() const { return {}; }
};

}  // namespace meg::serving
