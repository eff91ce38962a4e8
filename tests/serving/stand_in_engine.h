#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "libmeg/serving/generation_engine.h"

namespace meg::test {

/// How the stand-in behaves.
struct StandInOptions {
  int64_t vocab_size = 100;
  int32_t eod = 99;
  int64_t max_positions = 1024;
  int64_t slots = 16;                   ///< Texts at a time.
  int64_t step_microseconds = 0;        ///< What a step takes.
  int64_t beam_searches = 1;            ///< The same of beam searches.
  std::optional<int64_t> failing_step;  ///< The step, from 0, that is an error.
};

/// An engine without a model: each next token is a function of the two before it, and of the seed
/// where the request is not greedy; beam b of a search continues with token b each time, and a
/// search whose stop token is kFailingStop fails. So an answer depends on its request alone.
class StandInEngine : public serving::GenerationEngine {
 public:
  explicit StandInEngine(StandInOptions options) : options_(options) {}

  Status check(const serving::GenerationRequest& request) const override;
  bool has_room(const serving::GenerationRequest& request) const override;
  Result<int64_t> add(serving::GenerationRequest request) override;
  void cancel(int64_t request) override;
  serving::GeneratedText end(int64_t request) override;
  int64_t active() const override;
  int64_t active_beam_searches() const override;

  int64_t prompt_tokens_per_step() const override { return 256; }

  Result<std::vector<serving::GenerationEvent>> step() override;

  serving::EngineCounters counters() const override;

  static constexpr int32_t kFailingStop = 77;

  /// What step() says of token number `position` after `a` and `b`.
  static float logprob(int32_t a, int32_t b);

 private:
  struct Text {
    serving::GenerationRequest request;
    serving::GeneratedText text;
    int64_t steps = 0;
  };

  int32_t next_token(const Text& text) const;
  bool extend(Text& text, serving::GenerationEvent& event);
  void score(Text& text, serving::GenerationEvent& event) const;
  static bool search(Text& text, serving::GenerationEvent& event);

  const StandInOptions options_;
  std::map<int64_t, Text> texts_;
  int64_t next_number_ = 0;
  serving::EngineCounters counters_;
};

/// The answer that a request gets alone.
serving::GeneratedText stand_in_answer(const StandInOptions& options,
                                       const serving::GenerationRequest& request);

}  // namespace meg::test
