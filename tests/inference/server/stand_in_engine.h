#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "libmeg/inference/generation/generation_engine.h"

namespace meg::test {

/// How the stand-in behaves.
struct StandInOptions {
  int64_t vocab_size = 100;
  int32_t eod = 99;
  int64_t max_positions = 1024;
  int64_t slots = 16;                   ///< Texts at a time.
  int64_t step_microseconds = 0;        ///< What a step takes.
  std::optional<int64_t> failing_step;  ///< The step, from 0, that is an error.
};

/// An engine without a model: each next token is a function of the two before it, and of the seed
/// where the request is not greedy. So an answer depends on its request alone.
class StandInEngine : public inference::GenerationEngine {
 public:
  explicit StandInEngine(StandInOptions options) : options_(options) {}

  Status check(const inference::GenerationRequest& request) const override;
  bool has_room(const inference::GenerationRequest& request) const override;
  Result<int64_t> add(inference::GenerationRequest request) override;
  void cancel(int64_t request) override;
  int64_t active() const override;
  Result<std::vector<inference::GenerationEvent>> step() override;

  /// What step() says of token number `position` behind `a` and `b`.
  static float logprob(int32_t a, int32_t b);

 private:
  struct Text {
    inference::GenerationRequest request;
    inference::GeneratedText text;
  };

  int32_t next_token(const Text& text) const;

  const StandInOptions options_;
  std::map<int64_t, Text> texts_;
  int64_t next_number_ = 0;
  int64_t steps_ = 0;
};

/// The answer that a request gets alone.
inference::GeneratedText stand_in_answer(const StandInOptions& options,
                                         const inference::GenerationRequest& request);

/// A beam search of the same kind: beam b goes on with token b each time.
Result<std::vector<inference::Beam>> stand_in_beam_search(
    const std::vector<int32_t>& prompt, const inference::BeamSearchOptions& options);

}  // namespace meg::test
