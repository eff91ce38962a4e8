#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "libmeg/generation/internal/cached_model.h"
#include "libmeg/generation/internal/stop_rules.h"
#include "libmeg/nn/gpt_model.h"
#include "libmeg/serving/generation_engine.h"

namespace meg::generation {

/// The best texts that have ended, best first.
class EndedBeams {
 public:
  explicit EndedBeams(const serving::BeamSearchOptions& options) : options_(options) {}

  /// length: tokens after the prompt.
  void add(std::vector<int32_t> tokens, double sum, int64_t length);

  /// Whether no open text, the best of which has the sum `sum`, can displace one.
  bool is_done(double sum, int64_t length) const;

  /// num_return_gen of them at most.
  std::vector<serving::Beam> best(size_t prompt_size) &&;

 private:
  bool is_full() const { return beams_.size() >= static_cast<size_t>(options_.beam_width); }

  double score(double sum, int64_t length) const;

  const serving::BeamSearchOptions options_;
  std::vector<serving::Beam> beams_;
};

/// A search for the best continuations of a prompt, one token at a time. A text that reached the
/// stop token ends with it; unfinished texts are returned if the token limit is reached before
/// enough texts have finished. Mirrors Megatron-LM megatron/text_generation/generation.py:
/// beam_search_and_return_on_first_stage, over the true vocabulary.
class BeamSearch {
 public:
  /// request: must have `beam` and pass check_request(). newline is to outlive the
  /// search, whose texts lie in a cache of its own. Errors: CachedModel::create()'s.
  static Result<std::unique_ptr<BeamSearch>> create(std::shared_ptr<ModelRanks> model,
                                                    int64_t vocab_size,
                                                    const NewlineAfterColon& newline,
                                                    serving::GenerationRequest request);

  /// The maximum total number of tokens of its texts.
  int64_t max_tokens() const { return max_tokens_; }

  /// One token for each text; true once the search has ended.
  Result<bool> step();

  /// May be called once, after step() has said true.
  serving::GeneratedText take() &&;

 private:
  struct Open {
    std::vector<int32_t> tokens;
    double sum;  ///< Sum of the log probabilities after the prompt.
  };

  struct Step;

  BeamSearch(CachedModel model, const NewlineAfterColon& newline,
             serving::GenerationRequest request);

  Result<at::Tensor> last_states();
  Result<std::vector<Step>> best_steps(const at::Tensor& states);
  std::vector<Step> steps_of(int64_t beam, std::span<const float> logits) const;
  void keep_best(std::vector<Step>& steps) const;
  std::vector<int64_t> take_steps(const std::vector<Step>& steps);

  CachedModel model_;
  const NewlineAfterColon& newline_;
  serving::GenerationRequest request_;
  int64_t max_tokens_;
  int64_t length_ = 0;  ///< Tokens after the prompt.
  EndedBeams ended_;
  std::vector<Open> open_;  ///< Best first; text i is in slot i.
};

}  // namespace meg::generation
