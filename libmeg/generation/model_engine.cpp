#include "libmeg/generation/model_engine.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "libmeg/generation/internal/beam_search.h"
#include "libmeg/generation/internal/cached_model.h"
#include "libmeg/generation/internal/held_prompt.h"
#include "libmeg/generation/internal/pieces.h"
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

/// Positions whose logits are made at a time where a prompt is scored: so few that on a CPU the
/// bits of each are its own.
constexpr int64_t kScoredAtOnce = nn::kFewRows;

/// Tokens of prompts that a step reads, so that texts beside long prompts get their tokens, and
/// requests are cancelled, before all of the prompts are read. A GPU wants larger products.
constexpr int64_t kStepOnCpu = 2 * kPiece;
constexpr int64_t kStepOnGpu = 2048;

class ModelEngine : public serving::GenerationEngine {
 public:
  ModelEngine(CachedModel cached, const tokenizer::Tokenizer& tokenizer,
              const RequestLimits& limits)
      : model_(std::move(cached)), tokenizer_(tokenizer), newline_(tokenizer), limits_(limits) {
    for (int64_t slot = model_.cache().slots(); slot-- > 0;) free_slots_.push_back(slot);
    held_prompts_.resize(free_slots_.size());
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
    // The slot that holds the most of the prompt, else the lowest: a cache on a CPU takes no memory
    // for slots that have not been used.
    const auto shared = [&](int64_t slot) {
      return held_prompt(slot).shared_pieces(request.prompt, request);
    };
    const auto best =
        std::ranges::max_element(free_slots_.rbegin(), free_slots_.rend(), {}, shared);
    const int64_t slot = *best;
    free_slots_.erase(std::next(best).base());
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

  int64_t prompt_tokens_per_step() const override {
    return model_.is_on_cpu() ? kStepOnCpu : kStepOnGpu;
  }

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

  HeldPrompt& held_prompt(int64_t slot) { return held_prompts_[static_cast<size_t>(slot)]; }

  Status reuse_prompt(RunningText& text);
  Result<std::vector<Piece>> pieces_of_step();
  Result<at::Tensor> extend(std::span<const Piece> part);
  Status score_prompt(const Piece& piece, const at::Tensor& states);
  void note_outcome(const Status& outcome);

  CachedModel model_;
  const tokenizer::Tokenizer& tokenizer_;
  NewlineAfterColon newline_;
  RequestLimits limits_;
  Texts texts_;  ///< By number, as the searches.
  Searches searches_;
  std::vector<int64_t> free_slots_;       ///< The lowest last.
  std::vector<HeldPrompt> held_prompts_;  ///< By slot.
  int64_t held_tokens_ = 0;
  int64_t held_beam_tokens_ = 0;
  int64_t next_number_ = 0;
  int64_t last_reader_ = -1;  ///< The text whose prompt was read last.
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

/// Log probabilities of the prompt's tokens that follow those of a piece, or the text's failure.
/// states: of the piece.
Status ModelEngine::score_prompt(const Piece& piece, const at::Tensor& states) {
  RunningText& text = *piece.text;
  if (!text.failure.ok()) return Status();
  const int64_t end =
      std::min(piece.held + piece.count, static_cast<int64_t>(text.answer.prompt_size) - 1);
  text.score_up_to(static_cast<size_t>(end) + 1);
  for (int64_t first = piece.held; first < end; first += kScoredAtOnce) {
    const int64_t count = std::min(kScoredAtOnce, end - first);
    MEG_ASSIGN_OR_RETURN(const LogitRows rows,
                         model_.logits(states.narrow(0, first - piece.held, count)));
    for (int64_t i = 0; i < count; ++i) {
      if (rows[i].has_value()) continue;
      const auto held = static_cast<size_t>(first + i + 1);
      text.failure =
          rows[i].error().with_prefix(token_name(std::span(text.answer.tokens).first(held)));
      return Status();
    }
    kernels::parallel_for(count, /*grain=*/1, [&](int64_t begin, int64_t last) {
      for (int64_t i = begin; i < last; ++i) {
        text.score(static_cast<size_t>(first + i + 1), *rows[i]);
      }
    });
  }
  return Status();
}

/// Begins a text with the pieces of its prompt that some slot holds, and what is known of them.
Status ModelEngine::reuse_prompt(RunningText& text) {
  const std::span<const int32_t> prompt = text.answer.tokens;
  int64_t pieces = 0, source = text.slot;
  for (int64_t slot = 0; slot < model_.cache().slots(); ++slot) {
    const int64_t shared = held_prompt(slot).shared_pieces(prompt, text.request);
    // Its own slot rather than another one, which would have to be copied.
    if (shared < pieces || (shared == pieces && slot != text.slot)) continue;
    pieces = shared;
    source = slot;
  }
  HeldPrompt& held = held_prompt(text.slot);
  if (source != text.slot) held = held_prompt(source);
  held.cut(pieces);
  if (!text.request.logprobs) held.scored = 0;
  if (pieces == 0) return Status();
  const int64_t length = pieces * kPiece;
  MEG_RETURN_IF_ERROR(model_.copy_prefix(source, text.slot, length));
  counters_.reused_tokens += length;
  if (!text.request.logprobs) return Status();
  held.recall(text, length);
  // The token after the pieces is this text's own.
  MEG_ASSIGN_OR_RETURN(const LogitRows rows, model_.logits(held.ends.back().unsqueeze(0)));
  const Result<std::span<const float>> row = rows[0];
  if (row) {
    text.score(static_cast<size_t>(length), *row);
  } else {
    text.failure = row.error().with_prefix(token_name(prompt.first(static_cast<size_t>(length))));
  }
  return Status();
}

/// What a step reads: the last token of each text whose prompt is in the cache, and pieces of the
/// other prompts in turn.
Result<std::vector<Piece>> ModelEngine::pieces_of_step() {
  std::vector<Piece> pieces;
  std::deque<std::pair<int64_t, Piece>> readers;  ///< With what they have not read.
  for (auto& [number, text] : texts_) {
    if (text.is_full() && !text.request.logprobs) continue;
    const int64_t size = std::ssize(text.answer.tokens);
    if (model_.cache().length(text.slot) == 0) MEG_RETURN_IF_ERROR(reuse_prompt(text));
    if (!text.failure.ok()) continue;
    // A step that failed after the model is repeated.
    const int64_t held = std::min(model_.cache().length(text.slot), size - 1);
    if (text.is_reading(held)) {
      // The same beginning is not read twice at once: next time it is held.
      const auto reads_it = [&](const auto& reader) {
        const RunningText& other = *reader.second.text;
        return held == 0 && size > kPiece && reader.second.held == 0 &&
               other.answer.prompt_size >= static_cast<size_t>(kPiece) &&
               (!text.request.logprobs ||
                (other.request.logprobs &&
                 other.request.top_logprobs >= text.request.top_logprobs)) &&
               std::equal(text.answer.tokens.begin(), text.answer.tokens.begin() + kPiece,
                          other.answer.tokens.begin());
      };
      if (std::ranges::any_of(readers, reads_it)) continue;
      readers.emplace_back(number, Piece{&text, held, size - held});
    } else {
      pieces.push_back({&text, held, size - held});
    }
  }
  const auto next = std::ranges::find_if(
      readers, [&](const auto& reader) { return reader.first > last_reader_; });
  std::rotate(readers.begin(), next, readers.end());
  for (int64_t left = prompt_tokens_per_step(); left > 0 && !readers.empty();) {
    auto [number, piece] = readers.front();
    readers.pop_front();
    const int64_t unread = piece.count;
    piece.count = std::min(unread, model_.is_on_cpu() ? kPiece - piece.held % kPiece : left);
    pieces.push_back(piece);
    left -= piece.count;
    last_reader_ = number;
    if (piece.count == unread) continue;
    readers.emplace_back(number, Piece{piece.text, piece.held + piece.count, unread - piece.count});
  }
  return pieces;
}

/// Brings pieces into the cache. The hidden states of the last tokens of those that end their
/// texts, [n, h].
Result<at::Tensor> ModelEngine::extend(std::span<const Piece> part) {
  std::vector<nn::CachedTokens> sequences;
  std::vector<int32_t> tokens;
  std::vector<int64_t> last;
  for (const auto& [text, held, count] : part) {
    model_.cache().cut(text->slot, held);
    sequences.push_back({text->slot, count});
    const auto begin = text->answer.tokens.begin() + held;
    tokens.insert(tokens.end(), begin, begin + count);
    counters_.prompt_tokens += text->is_reading(held) ? count : 0;
  }
  MEG_ASSIGN_OR_RETURN(const at::Tensor states, model_.extend(sequences, tokens));
  counters_.step_tokens += std::ssize(tokens);
  int64_t row = 0;
  for (const Piece& piece : part) {
    if (piece.text->request.logprobs && piece.text->is_reading(piece.held)) {
      MEG_RETURN_IF_ERROR(score_prompt(piece, states.narrow(0, row, piece.count)));
    }
    if (piece.text->is_reading(piece.held)) {
      held_prompt(piece.text->slot).note(piece, states.narrow(0, row, piece.count));
    }
    row += piece.count;
    if (piece.is_last()) last.push_back(row - 1);
  }
  if (tokens.size() == last.size()) return states;
  return states.index_select(0,
                             libtorch::sent_to(states.device(), at::tensor(at::IntArrayRef(last))));
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
  ++counters_.steps;
  counters_.step_texts = active();
  counters_.step_tokens = 0;
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
  MEG_RETURN_IF_ERROR(libtorch::torch_guard([&]() -> Status {
    const c10::InferenceMode inference;
    std::vector<RunningText*> texts;
    std::vector<at::Tensor> states;
    MEG_ASSIGN_OR_RETURN(const std::vector<Piece> pieces, pieces_of_step());
    for (const std::vector<Piece>& part : parts_of(pieces, model_.is_on_cpu() ? nn::kFewRows : 0)) {
      MEG_ASSIGN_OR_RETURN(at::Tensor found, extend(part));
      states.push_back(std::move(found));
      for (const Piece& piece : part) {
        if (piece.is_last()) texts.push_back(piece.text);
      }
    }
    return texts.empty() ? Status() : draw_tokens(texts, at::cat(states));
  }));
  for (auto at = texts_.begin(); at != texts_.end();) {
    const auto text = at++;
    serving::GenerationEvent event;
    event.request = text->first;
    RunningText& running = text->second;
    const std::vector<int32_t>& tokens = running.answer.tokens;
    const bool is_reading = running.is_reading(model_.cache().length(running.slot));
    if (!running.failure.ok()) {
      event.finished = running.failure;
    } else {
      running.report(event);
      if (tokens.size() > running.answer.prompt_size) event.token = tokens.back();
      const bool stopped = event.token && ends_text(running.request.stop, tokenizer_, tokens);
      counters_.generated_tokens += event.token ? 1 : 0;
      if (stopped || (running.is_full() && !(is_reading && running.request.logprobs))) {
        running.answer.stopped = stopped;
        event.finished = std::move(running.answer);
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
