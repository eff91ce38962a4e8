#include "tests/serving/stand_in_engine.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <thread>
#include <utility>

namespace meg::test {

using serving::GeneratedText;
using serving::GenerationEvent;
using serving::GenerationRequest;

Status StandInEngine::check(const serving::GenerationRequest& request) const {
  if (request.prompt.empty()) {
    return make_error(StatusCode::kInvalidArgument, "the prompt has no tokens");
  }
  const auto length = static_cast<int64_t>(request.prompt.size()) + request.tokens_to_generate;
  if (length > options_.max_positions) {
    return make_error(StatusCode::kOutOfRange,
                      "prompt and new tokens are {} together: the model has {} positions", length,
                      options_.max_positions);
  }
  return {};
}

bool StandInEngine::has_room(const serving::GenerationRequest& request) const {
  const int64_t searches = active_beam_searches();
  return request.beam ? searches < options_.beam_searches : active() - searches < options_.slots;
}

Result<int64_t> StandInEngine::add(serving::GenerationRequest request) {
  MEG_RETURN_IF_ERROR(check(request));
  if (!has_room(request)) return make_error(StatusCode::kResourceExhausted, "no room");
  Text text;
  text.text.tokens = request.prompt;
  text.text.prompt_size = request.prompt.size();
  text.request = std::move(request);
  texts_.emplace(next_number_, std::move(text));
  return next_number_++;
}

int64_t StandInEngine::active_beam_searches() const {
  return std::ranges::count_if(
      texts_, [](const auto& entry) { return entry.second.request.beam.has_value(); });
}

void StandInEngine::cancel(int64_t request) { texts_.erase(request); }

serving::GeneratedText StandInEngine::end(int64_t request) {
  const auto found = texts_.find(request);
  serving::GeneratedText text = std::move(found->second.text);
  text.stopped = true;
  texts_.erase(found);
  return text;
}

serving::EngineCounters StandInEngine::counters() const {
  serving::EngineCounters counters = counters_;
  counters.max_held_tokens = options_.slots * options_.max_positions;
  for (const auto& [number, text] : texts_) {
    counters.held_tokens += std::ssize(text.request.prompt) + text.request.tokens_to_generate;
  }
  return counters;
}

int64_t StandInEngine::active() const { return static_cast<int64_t>(texts_.size()); }

float StandInEngine::logprob(int32_t a, int32_t b) {
  return -0.125f * static_cast<float>((a + 3 * b) % 64 + 1);
}

int32_t StandInEngine::next_token(const Text& text) const {
  const auto& tokens = text.text.tokens;
  uint64_t mixed = static_cast<uint64_t>(tokens.back()) * 0x9E3779B97F4A7C15ull + tokens.size();
  if (tokens.size() > 1) mixed += static_cast<uint64_t>(tokens[tokens.size() - 2]) * 0xBF58476Dull;
  if (text.request.sampling.top_k != 1) mixed += text.request.sampling.seed * 0x94D049BB133111EBull;
  mixed ^= mixed >> 29;
  mixed *= 0xBF58476D1CE4E5B9ull;
  mixed ^= mixed >> 32;
  return static_cast<int32_t>(mixed % static_cast<uint64_t>(options_.vocab_size));
}

Result<std::vector<serving::GenerationEvent>> StandInEngine::step() {
  if (options_.step_microseconds > 0) {
    std::this_thread::sleep_for(std::chrono::microseconds(options_.step_microseconds));
  }
  counters_.step_texts = active();
  if (counters_.steps++ == options_.failing_step) {
    return make_error(StatusCode::kInternal, "the step failed");
  }
  std::vector<serving::GenerationEvent> events;
  for (auto entry = texts_.begin(); entry != texts_.end();) {
    Text& text = entry->second;
    serving::GenerationEvent event;
    event.request = entry->first;
    ++text.steps;
    const bool ended = text.request.beam ? search(text, event) : extend(text, event);
    if (ended && !event.finished) event.finished = std::move(text.text);
    entry = ended ? texts_.erase(entry) : std::next(entry);
    events.push_back(std::move(event));
  }
  return events;
}

/// The search's next token; true with the last.
bool StandInEngine::search(Text& text, serving::GenerationEvent& event) {
  const serving::BeamSearchOptions& options = *text.request.beam;
  if (options.stop_token == kFailingStop) {
    event.finished = make_error(StatusCode::kInternal, "the search failed");
    return true;
  }
  if (text.steps < text.request.tokens_to_generate) return false;
  for (int32_t number = 0; number < options.num_return_gen; ++number) {
    serving::Beam beam{text.request.prompt, text.request.prompt.size(), 0};
    beam.tokens.insert(beam.tokens.end(), static_cast<size_t>(text.steps), number);
    beam.score = -1.5 * (number + 1) * options.length_penalty;
    text.text.beams.push_back(std::move(beam));
  }
  return true;
}

/// One token; true where it is the last.
bool StandInEngine::extend(Text& text, serving::GenerationEvent& event) {
  bool ended = text.request.tokens_to_generate == 0;
  if (!ended) {
    event.token = next_token(text);
    ++counters_.generated_tokens;
    text.text.tokens.push_back(*event.token);
    text.text.stopped = text.request.stop.on_eod && *event.token == options_.eod;
    ended = text.steps == text.request.tokens_to_generate || text.text.stopped;
  }
  if (text.steps == 1) counters_.prompt_tokens += std::ssize(text.request.prompt);
  if (text.request.logprobs) score(text, event);
  return ended;
}

/// The places since the last step: at first all of the prompt. The token itself is the most likely
/// one.
void StandInEngine::score(Text& text, serving::GenerationEvent& event) const {
  const auto& tokens = text.text.tokens;
  for (size_t i = text.text.logprobs.size() + 1; i < tokens.size(); ++i) {
    const float score = logprob(tokens[i - 1], tokens[i]);
    event.logprobs.push_back(score);
    if (text.request.top_logprobs == 0) continue;
    auto& top = event.top_logprobs.emplace_back();
    for (int32_t rank = 0; rank < text.request.top_logprobs; ++rank) {
      top.push_back({static_cast<int32_t>((tokens[i] + rank) % options_.vocab_size),
                     score - static_cast<float>(rank)});
    }
  }
  const auto append = [](auto& to, const auto& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  append(text.text.logprobs, event.logprobs);
  append(text.text.top_logprobs, event.top_logprobs);
}

serving::GeneratedText stand_in_answer(const StandInOptions& options,
                                       const serving::GenerationRequest& request) {
  StandInOptions quick = options;
  quick.step_microseconds = 0;
  quick.failing_step.reset();
  StandInEngine engine(quick);
  if (!engine.add(request).has_value()) return {};
  for (;;) {
    auto events = engine.step();
    if (!events.has_value()) return {};
    if (events->front().finished.has_value()) return std::move(**events->front().finished);
  }
}

}  // namespace meg::test
