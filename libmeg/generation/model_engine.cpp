#include "libmeg/generation/model_engine.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "libmeg/generation/internal/beam_search.h"
#include "libmeg/generation/internal/cached_model.h"
#include "libmeg/generation/internal/request_checks.h"
#include "libmeg/generation/internal/running_text.h"
#include "libmeg/generation/internal/stop_rules.h"
#include "libmeg/generation/internal/token_scores.h"
#include "libmeg/kernels/cpu/parallel_for.h"
#include "libmeg/libtorch/device_copy.h"
#include "libmeg/libtorch/torch_guard.h"
#include "libmeg/nn/operators/few_rows_linear.h"

namespace meg::generation {
namespace {

/// Positions whose logits are made at a time where a prompt is scored.
constexpr int64_t kScoredAtOnce = 64;

class ModelEngine : public serving::GenerationEngine {
 public:
  ModelEngine(CachedModel cached, const tokenizer::Tokenizer& tokenizer,
              const RequestLimits& limits)
      : model_(std::move(cached)), tokenizer_(tokenizer), newline_(tokenizer), limits_(limits) {
    for (int64_t slot = model_.cache().slots(); slot-- > 0;) free_slots_.push_back(slot);
  }

  Status check(const serving::GenerationRequest& request) const override {
    if (request.prevent_newline_after_colon) MEG_RETURN_IF_ERROR(newline_.check());
    return check_request(request, limits_);
  }

  bool has_room(const serving::GenerationRequest& request) const override {
    const int64_t tokens = max_tokens(request);
    if (request.beam) return held_beam_tokens_ + tokens <= limits_.max_beam_tokens;
    return !free_slots_.empty() && held_tokens_ + tokens <= limits_.max_tokens;
  }

  Result<int64_t> add(serving::GenerationRequest request) override {
    MEG_RETURN_IF_ERROR(check(request));
    if (!has_room(request)) {
      return make_error(StatusCode::kResourceExhausted,
                        "engine: no space for another text besides {} of {} tokens", active(),
                        held_tokens_ + held_beam_tokens_);
    }
    if (request.beam) return add_search(std::move(request));
    const int64_t slot = free_slots_.back();
    free_slots_.pop_back();
    const auto [place, _] = texts_.emplace(next_number_++, RunningText(std::move(request), slot));
    held_tokens_ += place->second.length;
    return place->first;
  }

  void cancel(int64_t request) override {
    const auto found = texts_.find(request);
    if (found != texts_.end()) forget(found);
    const auto search = searches_.find(request);
    if (search != searches_.end()) forget(search);
  }

  serving::GeneratedText end(int64_t request) override {
    const auto found = texts_.find(request);
    serving::GeneratedText text = std::move(found->second.answer);
    text.stopped = true;
    forget(found);
    return text;
  }

  int64_t active() const override { return std::ssize(texts_) + std::ssize(searches_); }

  int64_t active_beam_searches() const override { return std::ssize(searches_); }

  Result<std::vector<serving::GenerationEvent>> step() override;

  /// Does once what a text asks for. A GPU loads its libraries and kernels when they are first
  /// used: here, while the model is loaded, rather than while the first text waits. On any device
  /// failure() then says whether the model works at all.
  Status warm_up();

  serving::EngineCounters counters() const override {
    serving::EngineCounters counters = counters_;
    counters.held_tokens = held_tokens_;
    counters.max_held_tokens = limits_.max_tokens;
    return counters;
  }

  Status lost() const override { return model_.model()->lost(); }

  Status failure() const override { return failure_; }

 private:
  using Texts = std::map<int64_t, RunningText>;
  using Searches = std::map<int64_t, std::unique_ptr<BeamSearch>>;

  void forget(Texts::iterator text) {
    model_.cache().cut(text->second.slot, 0);
    held_tokens_ -= text->second.length;
    // The lowest slots are used first, so that those in use lie together.
    const auto place = std::lower_bound(free_slots_.begin(), free_slots_.end(), text->second.slot,
                                        std::greater<>());
    free_slots_.insert(place, text->second.slot);
    texts_.erase(text);
  }

  void forget(Searches::iterator search) {
    held_beam_tokens_ -= search->second->max_tokens();
    searches_.erase(search);
  }

  Result<int64_t> add_search(serving::GenerationRequest request);
  Status step_texts(std::vector<serving::GenerationEvent>& events);
  Status draw_tokens(std::span<RunningText* const> texts, const at::Tensor& states);
  void step_searches(std::vector<serving::GenerationEvent>& events);
  std::vector<std::vector<RunningText*>> parts_of(std::span<RunningText* const> texts) const;
  Result<at::Tensor> last_states(std::vector<RunningText*>& texts);
  Result<at::Tensor> extend(std::span<RunningText* const> texts);
  Status score_prompt(RunningText& text, const at::Tensor& states);
  void note_outcome(const Status& outcome);

  CachedModel model_;
  const tokenizer::Tokenizer& tokenizer_;
  NewlineAfterColon newline_;
  RequestLimits limits_;
  Texts texts_;  ///< By number, as the searches.
  Searches searches_;
  std::vector<int64_t> free_slots_;  ///< The lowest last.
  int64_t held_tokens_ = 0;
  int64_t held_beam_tokens_ = 0;
  int64_t next_number_ = 0;
  serving::EngineCounters counters_;
  Status failure_;
};

Status ModelEngine::warm_up() {
  const bool is_short = model_.is_on_cpu();
  const int64_t capacity = model_.cache().capacity();
  const int64_t prompt = std::min<int64_t>(is_short ? 1 : 4, capacity);
  // A step is recorded when it comes again.
  const int64_t steps = std::min<int64_t>(is_short ? 0 : 3, capacity - prompt);
  const Status status = libtorch::torch_guard([&]() -> Status {
    const c10::InferenceMode inference;
    const std::vector<int32_t> tokens(static_cast<size_t>(prompt), 0);
    for (int64_t step = 0; step <= steps; ++step) {
      const int64_t count = step == 0 ? prompt : 1;
      const nn::CachedTokens sequence = {.slot = 0, .count = count};
      MEG_ASSIGN_OR_RETURN(
          const at::Tensor states,
          model_.extend({&sequence, 1}, std::span(tokens).first(static_cast<size_t>(count))));
      MEG_RETURN_IF_ERROR(model_.most_likely(states.narrow(0, count - 1, 1)).status());
      MEG_ASSIGN_OR_RETURN(const LogitRows rows, model_.logits(states.narrow(0, count - 1, 1)));
      failure_ = rows[0].status().with_prefix("warm-up");
    }
    return Status();
  });
  model_.cache().cut(0, 0);
  return status;
}

/// log p of all tokens of a prompt but the first, or its failure.
Status ModelEngine::score_prompt(RunningText& text, const at::Tensor& states) {
  const std::vector<int32_t>& tokens = text.answer.tokens;
  for (int64_t first = 0; first + 1 < states.size(0); first += kScoredAtOnce) {
    const int64_t count = std::min(kScoredAtOnce, states.size(0) - 1 - first);
    MEG_ASSIGN_OR_RETURN(const LogitRows rows, model_.logits(states.narrow(0, first, count)));
    for (int64_t i = 0; i < count; ++i) {
      const auto next = static_cast<size_t>(first + i + 1);
      const Result<std::span<const float>> row = rows[i];
      if (!row) {
        text.failure = row.error().with_prefix(token_name(std::span(tokens).first(next)));
        return Status();
      }
      text.answer.logprobs.push_back(static_cast<float>(log_probability(*row, tokens[next])));
    }
  }
  return Status();
}

/// Brings what the cache lacks of each text into it. The hidden states of their last tokens, [n,
/// h].
Result<at::Tensor> ModelEngine::extend(std::span<RunningText* const> texts) {
  std::vector<nn::CachedTokens> sequences;
  std::vector<int32_t> tokens;
  std::vector<int64_t> last;
  for (RunningText* text : texts) {
    const auto size = static_cast<int64_t>(text->answer.tokens.size());
    // A step that failed after the model is repeated.
    const int64_t held = std::min(model_.cache().length(text->slot), size - 1);
    model_.cache().cut(text->slot, held);
    sequences.push_back({text->slot, size - held});
    tokens.insert(tokens.end(), text->answer.tokens.begin() + held, text->answer.tokens.end());
    last.push_back(static_cast<int64_t>(tokens.size()) - 1);
  }
  MEG_ASSIGN_OR_RETURN(const at::Tensor states, model_.extend(sequences, tokens));
  for (size_t i = 0; i < texts.size(); ++i) {
    RunningText& text = *texts[i];
    if (!text.request.logprobs || text.answer.tokens.size() != text.answer.prompt_size) continue;
    text.answer.logprobs.clear();
    MEG_RETURN_IF_ERROR(
        score_prompt(text, states.narrow(0, last[i] + 1 - sequences[i].count, sequences[i].count)));
  }
  if (tokens.size() == texts.size()) return states;
  return states.index_select(0,
                             libtorch::sent_to(states.device(), at::tensor(at::IntArrayRef(last))));
}

/// Which texts go through the model together: on a GPU all. A CPU takes those that are held and, up
/// to as many tokens as keep a row's bits apart from the other rows, new ones; longer prompts
/// alone.
std::vector<std::vector<RunningText*>> ModelEngine::parts_of(
    std::span<RunningText* const> texts) const {
  std::vector<RunningText*> together, alone;
  for (RunningText* text : texts) {
    const bool is_long =
        model_.cache().length(text->slot) == 0 && std::ssize(text->answer.tokens) > nn::kFewRows;
    (is_long && model_.is_on_cpu() ? alone : together).push_back(text);
  }
  std::vector<std::vector<RunningText*>> parts;
  int64_t rows = nn::kFewRows;
  for (RunningText* text : together) {
    const int64_t count = std::ssize(text->answer.tokens) - model_.cache().length(text->slot);
    if (parts.empty() || (model_.is_on_cpu() && rows + count > nn::kFewRows)) {
      parts.emplace_back();
      rows = 0;
    }
    parts.back().push_back(text);
    rows += count;
  }
  for (RunningText* text : alone) parts.push_back({text});
  return parts;
}

/// Brings `texts` into the order in which they go through the model. The hidden states of their
/// last tokens, [n, h].
Result<at::Tensor> ModelEngine::last_states(std::vector<RunningText*>& texts) {
  const std::vector<std::vector<RunningText*>> parts = parts_of(texts);
  std::vector<at::Tensor> states;
  texts.clear();
  for (const std::vector<RunningText*>& part : parts) {
    MEG_ASSIGN_OR_RETURN(at::Tensor found, extend(part));
    states.push_back(std::move(found));
    texts.insert(texts.end(), part.begin(), part.end());
  }
  return at::cat(states);
}

Result<int64_t> ModelEngine::add_search(serving::GenerationRequest request) {
  MEG_ASSIGN_OR_RETURN(
      std::unique_ptr<BeamSearch> search,
      BeamSearch::create(model_.model(), limits_.vocab_size, newline_, std::move(request)));
  held_beam_tokens_ += search->max_tokens();
  searches_.emplace(next_number_, std::move(search));
  return next_number_++;
}

Result<std::vector<serving::GenerationEvent>> ModelEngine::step() {
  std::vector<serving::GenerationEvent> events;
  if (const Status status = step_texts(events); !status.ok()) {
    note_outcome(status);
    return status;
  }
  step_searches(events);
  return events;
}

/// What a search runs into ends that search alone.
void ModelEngine::step_searches(std::vector<serving::GenerationEvent>& events) {
  for (auto at = searches_.begin(); at != searches_.end();) {
    const auto search = at++;
    bool has_ended = false;
    const Status status = libtorch::torch_guard([&]() -> Status {
      const c10::InferenceMode inference;
      MEG_ASSIGN_OR_RETURN(has_ended, search->second->step());
      return Status();
    });
    serving::GenerationEvent event;
    event.request = search->first;
    if (!status.ok()) {
      event.finished = status;
    } else if (has_ended) {
      event.finished = std::move(*search->second).take();
    }
    if (event.finished) {
      note_outcome(event.finished->status());
      forget(search);
    }
    events.push_back(std::move(event));
  }
}

void ModelEngine::note_outcome(const Status& outcome) {
  // That there is no memory for a text says nothing about the model.
  if (outcome.code() != StatusCode::kResourceExhausted) failure_ = outcome;
}

/// The next token of each text that is not full, by the hidden states of their last ones, or the
/// text's failure. A full text is among them for its logprobs alone, which keep takes_most_likely()
/// false.
Status ModelEngine::draw_tokens(std::span<RunningText* const> texts, const at::Tensor& states) {
  if (std::ranges::all_of(texts, &RunningText::takes_most_likely)) {
    MEG_ASSIGN_OR_RETURN(const std::vector<Result<int32_t>> tokens, model_.most_likely(states));
    for (size_t i = 0; i < texts.size(); ++i) {
      std::vector<int32_t>& of_text = texts[i]->answer.tokens;
      if (tokens[i]) {
        of_text.push_back(*tokens[i]);
      } else {
        texts[i]->failure = tokens[i].error().with_prefix(token_name(of_text));
      }
    }
    return Status();
  }
  MEG_ASSIGN_OR_RETURN(const LogitRows rows, model_.logits(states));
  kernels::parallel_for(rows.size(), /*grain=*/1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      RunningText& text = *texts[static_cast<size_t>(i)];
      if (text.is_full() || !text.failure.ok()) continue;
      const Result<std::span<const float>> row = rows[i];
      if (row) {
        text.extend(*row, newline_);
      } else {
        text.failure = row.error().with_prefix(token_name(text.answer.tokens));
      }
    }
  });
  return Status();
}

Status ModelEngine::step_texts(std::vector<serving::GenerationEvent>& events) {
  std::vector<RunningText*> texts;
  for (auto& [number, text] : texts_) {
    if (!text.is_full() || text.request.logprobs) texts.push_back(&text);
  }
  MEG_RETURN_IF_ERROR(libtorch::torch_guard([&]() -> Status {
    if (texts.empty()) return Status();
    const c10::InferenceMode inference;
    MEG_ASSIGN_OR_RETURN(const at::Tensor states, last_states(texts));
    return draw_tokens(texts, states);
  }));
  for (auto at = texts_.begin(); at != texts_.end();) {
    const auto text = at++;
    serving::GenerationEvent event;
    event.request = text->first;
    const std::vector<int32_t>& tokens = text->second.answer.tokens;
    if (!text->second.failure.ok()) {
      event.finished = text->second.failure;
    } else {
      if (tokens.size() > text->second.answer.prompt_size) event.token = tokens.back();
      const bool stopped = event.token && ends_text(text->second.request.stop, tokenizer_, tokens);
      if (stopped || text->second.is_full()) {
        text->second.answer.stopped = stopped;
        event.finished = std::move(text->second.answer);
      }
    }
    if (event.finished) {
      note_outcome(event.finished->status());
      forget(text);
    }
    events.push_back(std::move(event));
  }
  return Status();
}

}  // namespace

Result<std::unique_ptr<serving::GenerationEngine>> create_generation_engine(
    nn::GptModel& model, const tokenizer::Tokenizer& tokenizer, const EngineOptions& options,
    const parallel::ParallelState& ranks) {
  const int64_t most = max_positions(model);
  if (options.max_slots < 1 || options.max_tokens < 0 || options.max_beam_tokens < 0 ||
      options.max_sequence_length < 0 || options.max_sequence_length > most) {
    return make_error(
        StatusCode::kInvalidArgument,
        "engine: expected at least 1 slot, 0 or more tokens, as many of beam searches "
        "and 0 to {} of one text, found {}, {}, {} and {}",
        most, options.max_slots, options.max_tokens, options.max_beam_tokens,
        options.max_sequence_length);
  }
  RequestLimits limits;
  limits.vocab_size = tokenizer.vocab_size();
  limits.positions = options.max_sequence_length > 0 ? options.max_sequence_length : most;
  limits.max_tokens =
      options.max_tokens > 0 ? options.max_tokens : options.max_slots * limits.positions;
  limits.max_beam_tokens =
      options.max_beam_tokens > 0 ? options.max_beam_tokens : limits.max_tokens;
  MEG_ASSIGN_OR_RETURN(std::shared_ptr<ModelRanks> parts, ModelRanks::create(model, ranks));
  MEG_ASSIGN_OR_RETURN(CachedModel cached,
                       CachedModel::create(std::move(parts), limits.vocab_size, options.max_slots,
                                           std::min(limits.positions, limits.max_tokens)));
  auto engine = std::make_unique<ModelEngine>(std::move(cached), tokenizer, limits);
  MEG_RETURN_IF_ERROR(engine->warm_up());
  return std::unique_ptr<serving::GenerationEngine>(std::move(engine));
}

Status follow_generation_engine(nn::GptModel& model, const parallel::ParallelState& ranks) {
  MEG_ASSIGN_OR_RETURN(const std::shared_ptr<ModelRanks> parts, ModelRanks::create(model, ranks));
  return parts->follow();
}

}  // namespace meg::generation
