#include "libmeg/generation/generate.h"

#include <fmt/format.h>

#include <unordered_map>
#include <utility>

namespace meg::generation {
namespace {

/// The requests under way, by the engine's numbers; forgotten by the engine where work ends early.
class Running {
 public:
  explicit Running(serving::GenerationEngine& engine) : engine_(engine) {}

  ~Running() {
    for (const auto& [number, place] : places_) engine_.cancel(number);
  }

  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  void add(int64_t number, size_t place) { places_.emplace(number, place); }

  size_t place(int64_t number) const { return places_.at(number); }

  void finish(int64_t number) { places_.erase(number); }

  bool empty() const { return places_.empty(); }

 private:
  serving::GenerationEngine& engine_;
  std::unordered_map<int64_t, size_t> places_;
};

}  // namespace

Result<std::vector<serving::GeneratedText>> generate(
    serving::GenerationEngine& engine, std::vector<serving::GenerationRequest> requests,
    const GenerationProgressCallback& progress) {
  for (size_t i = 0; i < requests.size(); ++i) {
    MEG_RETURN_IF_ERROR(engine.check(requests[i]).with_prefix(fmt::format("text {}", i)));
  }
  std::vector<serving::GeneratedText> texts(requests.size());
  GenerationProgress now{.texts = static_cast<int64_t>(requests.size())};
  Running running(engine);
  size_t next = 0;
  while (next < requests.size() || !running.empty()) {
    for (; next < requests.size() && engine.has_room(requests[next]); ++next) {
      MEG_ASSIGN_OR_RETURN(const int64_t number, engine.add(std::move(requests[next])));
      running.add(number, next);
    }
    MEG_ASSIGN_OR_RETURN(std::vector<serving::GenerationEvent> events, engine.step());
    now.step_tokens.clear();
    for (serving::GenerationEvent& event : events) {
      const size_t place = running.place(event.request);
      if (event.token.has_value()) now.step_tokens.push_back({place, *event.token});
      if (!event.finished) continue;
      running.finish(event.request);
      if (!event.finished->has_value()) {
        return event.finished->error().with_prefix(fmt::format("text {}", place));
      }
      texts[place] = std::move(**event.finished);
      ++now.finished;
    }
    now.tokens += std::ssize(now.step_tokens);
    if (progress != nullptr && !progress(now)) {
      return Status(StatusCode::kCancelled, "generation: cancelled");
    }
  }
  return texts;
}

}  // namespace meg::generation
