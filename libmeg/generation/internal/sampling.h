#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "libmeg/base/status.h"
#include "libmeg/serving/generation_engine.h"

namespace meg::generation {

/// kInvalidArgument or kOutOfRange, with the option's name, for what no Sampler does.
Status check_sampling(const serving::SamplingOptions& options, int64_t vocab_size);

/// Draws the tokens of one request, each from the logits after the last one. The generator is the
/// request's own: the same seed and the same logits give the same tokens. The draw passes the
/// candidates in the order of their ids, so logits that differ by a rounding change a token only if
/// the random number or a limit of top-k or top-p lies between the two.
/// Mirrors Megatron-LM megatron/text_generation/sampling.py: sample. One difference: Megatron also
/// draws padding ids of the vocabulary and replaces them by the last true one; here the logits are
/// only those of true tokens.
class Sampler {
 public:
  /// options: what check_sampling() accepts.
  explicit Sampler(const serving::SamplingOptions& options);

  /// Whether draw() returns the most likely token, and thus needs no other logits.
  bool is_greedy() const;

  /// logits: [v], of the true vocabulary, at least one of them finite and none NaN or +infinity;
  /// -infinity: never drawn.
  int32_t draw(std::span<const float> logits);

 private:
  struct Candidate {
    float weight;
    int32_t id;
  };

  void weigh(std::span<const float> logits);
  void take_top_k(std::span<const float> logits);
  void take_top_p();
  void cut_candidates(double wanted);
  double draw_below(double total);
  int32_t draw_candidate();

  serving::SamplingOptions options_;
  std::mt19937_64 generator_;
  double top_p_;                ///< After decay; 1: all tokens.
  std::vector<float> weights_;  ///< By id.
  std::vector<Candidate> candidates_;
  std::vector<float> room_;
};

/// The most likely token; the first where several are.
int32_t most_likely(std::span<const float> logits);

}  // namespace meg::generation
