// The order of a pipeline's steps, run on stages that compute nothing.

#include "libmeg/train/internal/pipeline/pipeline_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "libmeg/parallel/pipeline_links.h"

namespace meg::train {
namespace {

using Pass = PipelineStep::Pass;

/// A step of one stage.
struct Place {
  int64_t stage = 0;
  PipelineStep step;

  auto key() const { return std::tuple(stage, step.pass, step.micro_batch, step.chunk); }

  bool operator<(const Place& other) const { return key() < other.key(); }
};

struct Shape {
  int64_t stages = 1;
  int64_t chunks = 1;
  int64_t micro_batches = 1;
  int64_t group = stages;

  PipelinePlace place(int64_t stage) const {
    return {.stage = stage, .stages = stages, .chunks = chunks, .group = group};
  }
};

/// Whose message a step waits for; nullopt: it needs none.
std::optional<Place> sender(const Shape& shape, const Place& place) {
  Place from = place;
  const bool is_forward = place.step.pass == Pass::kForward;
  from.stage += is_forward ? -1 : 1;
  if (from.stage >= 0 && from.stage < shape.stages) return from;
  from.stage = is_forward ? shape.stages - 1 : 0;
  from.step.chunk += is_forward ? -1 : 1;
  if (from.step.chunk < 0 || from.step.chunk >= shape.chunks) return std::nullopt;
  return from;
}

/// Stages that take their steps as they can, each step so many slots of time. LibTorch's sends are
/// there when they are received; a stage waits for its oldest where too many are under way.
class Pipeline {
 public:
  Pipeline(const Shape& shape, int64_t forward_slots, int64_t backward_slots)
      : shape_(shape),
        slots_{{Pass::kForward, forward_slots}, {Pass::kBackward, backward_slots}},
        stages_(static_cast<size_t>(shape.stages)) {
    for (int64_t s = 0; s < shape.stages; ++s) {
      stage(s).steps = pipeline_schedule(shape.place(s), shape.micro_batches);
    }
  }

  /// False where all wait for each other.
  bool run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (int64_t s = 0; s < shape_.stages; ++s) {
        while (take_step(s)) moved = true;
      }
    }
    return std::ranges::all_of(stages_,
                               [](const Stage& stage) { return stage.next == stage.steps.size(); });
  }

  int64_t makespan() const {
    return std::ranges::max(stages_, {}, [](const Stage& stage) { return stage.clock; }).clock;
  }

  /// Slots in which a stage computes.
  int64_t work(int64_t s) const {
    int64_t slots = 0;
    for (const PipelineStep& step : stages_[static_cast<size_t>(s)].steps) {
      slots += slots_.at(step.pass);
    }
    return slots;
  }

 private:
  struct Stage {
    std::vector<PipelineStep> steps;
    size_t next = 0;
    int64_t clock = 0;
    std::vector<Place> sent;  ///< By their receivers.
  };

  Stage& stage(int64_t s) { return stages_[static_cast<size_t>(s)]; }

  /// Waits as parallel::PipelineLinks does.
  bool finish_sends(Stage& stage) {
    const size_t most =
        parallel::PipelineLinks::kSendsOfMicroBatch * static_cast<size_t>(shape_.group);
    if (stage.sent.size() <= most) return true;
    const auto reached = reached_.find(stage.sent[stage.sent.size() - most - 1]);
    if (reached == reached_.end()) return false;
    stage.clock = std::max(stage.clock, reached->second);
    return true;
  }

  bool take_step(int64_t s) {
    Stage& stage = this->stage(s);
    if (stage.next == stage.steps.size() || !finish_sends(stage)) return false;
    const Place place{.stage = s, .step = stage.steps[stage.next]};
    reached_.emplace(place, stage.clock);
    const std::optional<Place> from = sender(shape_, place);
    if (from.has_value() && !ends_.contains(*from)) return false;
    if (from.has_value()) stage.clock = std::max(stage.clock, ends_.at(*from));
    stage.clock += slots_.at(place.step.pass);
    ends_.emplace(place, stage.clock);
    ++stage.next;
    if (const std::optional<Place> to = receiver(place)) stage.sent.push_back(*to);
    return true;
  }

  std::optional<Place> receiver(const Place& place) const {
    Place to = place;
    const bool is_forward = place.step.pass == Pass::kForward;
    to.stage += is_forward ? 1 : -1;
    if (to.stage >= 0 && to.stage < shape_.stages) return to;
    to.stage = is_forward ? 0 : shape_.stages - 1;
    to.step.chunk += is_forward ? 1 : -1;
    if (to.step.chunk < 0 || to.step.chunk >= shape_.chunks) return std::nullopt;
    return to;
  }

  Shape shape_;
  std::map<Pass, int64_t> slots_;
  std::vector<Stage> stages_;
  std::map<Place, int64_t> reached_, ends_;  ///< When a stage came to a step, and was done.
};

std::vector<Shape> shapes() {
  std::vector<Shape> all;
  for (int64_t stages = 1; stages <= 8; ++stages) {
    for (int64_t micro_batches = 1; micro_batches <= 24; ++micro_batches) {
      all.push_back({.stages = stages, .chunks = 1, .micro_batches = micro_batches});
      if (stages == 1) continue;
      for (int64_t group = stages; group <= micro_batches; ++group) {
        const int64_t rest = micro_batches % group;
        if (rest > 0 && rest < stages) continue;
        for (int64_t chunks = 2; chunks <= 4; ++chunks) {
          all.push_back({stages, chunks, micro_batches, group});
        }
      }
    }
  }
  return all;
}

std::string text_of(const Shape& shape) {
  return std::to_string(shape.stages) + " stages, " + std::to_string(shape.chunks) + " chunks, " +
         std::to_string(shape.micro_batches) + " micro-batches in groups of " +
         std::to_string(shape.group);
}

TEST(PipelineSchedule, TheBubbleIsStagesLessOneOverMicroBatchesAndChunks) {
  for (const Shape& shape : shapes()) {
    for (const auto& [forward, backward] : {std::pair(1, 1), std::pair(1, 2), std::pair(3, 5)}) {
      SCOPED_TRACE(text_of(shape));
      Pipeline pipeline(shape, forward, backward);
      ASSERT_TRUE(pipeline.run()) << "all stages wait for each other";
      for (int64_t s = 0; s < shape.stages; ++s) {
        const int64_t work = pipeline.work(s);
        EXPECT_EQ(work, shape.micro_batches * shape.chunks * (forward + backward));
        const int64_t bubble = pipeline.makespan() - work;
        EXPECT_EQ(bubble * shape.micro_batches * shape.chunks, work * (shape.stages - 1));
      }
    }
  }
}

TEST(PipelineSchedule, EveryMicroBatchGoesOnceThroughEveryChunk) {
  for (const Shape& shape : shapes()) {
    for (int64_t s = 0; s < shape.stages; ++s) {
      std::map<Place, int> times;
      for (const PipelineStep& step : pipeline_schedule(shape.place(s), shape.micro_batches)) {
        ++times[{s, step}];
        const bool is_back = step.pass == Pass::kBackward;
        const Place forward{s, {Pass::kForward, step.micro_batch, step.chunk}};
        if (is_back) {
          EXPECT_EQ(times[forward], 1) << text_of(shape);
        }
      }
      EXPECT_EQ(std::ssize(times), 2 * shape.micro_batches * shape.chunks);
      EXPECT_TRUE(std::ranges::all_of(times, [](const auto& entry) { return entry.second == 1; }));
    }
  }
}

/// What a stage's steps of one direction take from others, in their order.
std::vector<Place> received(const Shape& shape, int64_t stage, Pass pass) {
  std::vector<Place> found;
  for (const PipelineStep& step : pipeline_schedule(shape.place(stage), shape.micro_batches)) {
    const std::optional<Place> from = sender(shape, {stage, step});
    if (step.pass == pass && from.has_value()) found.push_back(*from);
  }
  return found;
}

TEST(PipelineSchedule, MessagesArriveInTheOrderInWhichTheyAreSent) {
  for (const Shape& shape : shapes()) {
    for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
      for (int64_t s = 0; s < shape.stages; ++s) {
        const std::vector<Place> taken = received(shape, s, pass);
        if (taken.empty()) continue;
        const int64_t from = taken.front().stage;
        std::vector<Place> sent;
        for (const PipelineStep& step : pipeline_schedule(shape.place(from), shape.micro_batches)) {
          const Place place{from, step};
          if (std::ranges::any_of(taken, [&](const Place& other) {
                return !(other < place) && !(place < other);
              })) {
            sent.push_back(place);
          }
        }
        ASSERT_EQ(sent.size(), taken.size());
        for (size_t i = 0; i < sent.size(); ++i) {
          EXPECT_EQ(sent[i].key(), taken[i].key()) << text_of(shape);
        }
      }
    }
  }
}

TEST(PipelineSchedule, ForwardStepsAloneTakeAnyNumberOfMicroBatches) {
  const std::vector<PipelineStep> steps =
      forward_schedule({.stage = 1, .stages = 2, .chunks = 2, .group = 2}, 3);
  const std::vector<std::pair<int64_t, int64_t>> expected = {{0, 0}, {1, 0}, {0, 1},
                                                             {1, 1}, {2, 0}, {2, 1}};
  ASSERT_EQ(steps.size(), expected.size());
  for (size_t i = 0; i < steps.size(); ++i) {
    EXPECT_EQ(std::pair(steps[i].micro_batch, steps[i].chunk), expected[i]);
  }
}

}  // namespace
}  // namespace meg::train
