#include "libmeg/generation/internal/beam_search.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "libmeg/generation/internal/forbidden_tokens.h"
#include "libmeg/generation/internal/request_checks.h"
#include "libmeg/generation/internal/running_text.h"
#include "libmeg/generation/internal/token_scores.h"
#include "libmeg/kernels/cpu/parallel_for.h"

namespace meg::generation {
namespace {

/// It is Megatron's: a forbidden token comes only where nothing else is left.
constexpr double kForbiddenScore = -1e10;

}  // namespace

void EndedBeams::add(std::vector<int32_t> tokens, double sum, int64_t length) {
  beams_.push_back({std::move(tokens), 0, score(sum, length)});
  std::stable_sort(
      beams_.begin(), beams_.end(),
      [](const serving::Beam& a, const serving::Beam& b) { return a.score > b.score; });
  if (is_full()) beams_.resize(static_cast<size_t>(options_.beam_width));
}

bool EndedBeams::is_done(double sum, int64_t length) const {
  return is_full() && beams_.back().score >= score(sum, length);
}

std::vector<serving::Beam> EndedBeams::best(size_t prompt_size) && {
  const auto count = static_cast<size_t>(options_.num_return_gen);
  if (beams_.size() > count) beams_.resize(count);
  for (serving::Beam& beam : beams_) beam.prompt_size = prompt_size;
  return std::move(beams_);
}

double EndedBeams::score(double sum, int64_t length) const {
  return sum / std::pow(static_cast<double>(length), options_.length_penalty);
}

/// A text's next token.
struct BeamSearch::Step {
  double sum = 0;  ///< Of the log probabilities, with this token's.
  int64_t beam = 0;
  int32_t token = 0;

  bool is_better_than(const Step& other) const {
    if (sum != other.sum) return sum > other.sum;
    return std::pair(beam, token) < std::pair(other.beam, other.token);
  }
};

Result<std::unique_ptr<BeamSearch>> BeamSearch::create(std::shared_ptr<ModelRanks> model,
                                                       int64_t vocab_size,
                                                       const NewlineAfterColon& newline,
                                                       serving::GenerationRequest request) {
  const int64_t length = std::ssize(request.prompt) + request.tokens_to_generate;
  MEG_ASSIGN_OR_RETURN(CachedModel cached, CachedModel::create(std::move(model), vocab_size,
                                                               request.beam->beam_width, length));
  return std::unique_ptr<BeamSearch>(
      new BeamSearch(std::move(cached), newline, std::move(request)));
}

BeamSearch::BeamSearch(CachedModel model, const NewlineAfterColon& newline,
                       serving::GenerationRequest request)
    : model_(std::move(model)),
      newline_(newline),
      request_(std::move(request)),
      max_tokens_(generation::max_tokens(request_)),
      ended_(*request_.beam) {
  open_.push_back({request_.prompt, 0});
}

Result<bool> BeamSearch::step() {
  MEG_ASSIGN_OR_RETURN(const at::Tensor states, last_states());
  MEG_ASSIGN_OR_RETURN(const std::vector<Step> steps, best_steps(states));
  ++length_;
  const std::vector<int64_t> sources = take_steps(steps);
  if (ended_.is_done(steps.front().sum, length_)) return true;
  if (length_ == request_.tokens_to_generate) {
    for (Open& beam : open_) ended_.add(std::move(beam.tokens), beam.sum, length_);
    return true;
  }
  MEG_RETURN_IF_ERROR(model_.rearrange(sources));
  return false;
}

serving::GeneratedText BeamSearch::take() && {
  serving::GeneratedText text;
  text.beams = std::move(ended_).best(request_.prompt.size());
  text.tokens = text.beams.front().tokens;
  text.prompt_size = request_.prompt.size();
  return text;
}

/// The hidden states of each text's last token, [n, h]: of the prompt first, then of what was
/// taken.
Result<at::Tensor> BeamSearch::last_states() {
  std::vector<nn::CachedTokens> sequences;
  std::vector<int32_t> tokens;
  if (length_ == 0) {
    tokens = request_.prompt;
    sequences.push_back({0, std::ssize(tokens)});
  } else {
    for (const Open& beam : open_) {
      sequences.push_back({std::ssize(sequences), 1});
      tokens.push_back(beam.tokens.back());
    }
  }
  MEG_ASSIGN_OR_RETURN(const at::Tensor states, model_.extend(sequences, tokens));
  const int64_t count = std::ssize(sequences);
  return states.narrow(0, states.size(0) - count, count);
}

/// The 2 * beam_width best next tokens of all texts, best first: enough where each stops once.
Result<std::vector<BeamSearch::Step>> BeamSearch::best_steps(const at::Tensor& states) {
  // One text a thread: a row of logits takes longer than starting the thread.
  MEG_ASSIGN_OR_RETURN(const LogitRows logits, model_.logits(states));
  std::vector<std::span<const float>> rows;
  for (int64_t i = 0; i < logits.size(); ++i) {
    Result<std::span<const float>> row = logits[i];
    if (!row) return row.error().with_prefix(token_name(open_[static_cast<size_t>(i)].tokens));
    rows.push_back(*row);
  }
  std::vector<std::vector<Step>> of_texts(rows.size());
  kernels::parallel_for(logits.size(), /*grain=*/1, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      of_texts[i] = steps_of(static_cast<int64_t>(i), rows[i]);
    }
  });
  std::vector<Step> best;
  for (const std::vector<Step>& steps : of_texts)
    best.insert(best.end(), steps.begin(), steps.end());
  keep_best(best);
  return best;
}

/// The same of one text.
std::vector<BeamSearch::Step> BeamSearch::steps_of(int64_t beam,
                                                   std::span<const float> logits) const {
  const double total = log_sum_exp(logits);
  const Open& open = open_[static_cast<size_t>(beam)];
  const std::vector<int32_t> forbidden = forbidden_tokens(request_, open.tokens, newline_);
  // Forbidden tokens may be among the best, and are pushed to the end only afterwards.
  const auto wanted = static_cast<size_t>(2 * request_.beam->beam_width) + forbidden.size();
  // All that are as large as the last wanted one; a heap of floats is quicker than one of steps.
  std::vector<float> largest(std::min(wanted, logits.size()));
  std::partial_sort_copy(logits.begin(), logits.end(), largest.begin(), largest.end(),
                         std::greater<>());
  std::vector<Step> steps;
  for (size_t token = 0; token < logits.size(); ++token) {
    if (logits[token] < largest.back()) continue;
    const double score = double{logits[token]} - total;
    steps.push_back({open.sum + score, beam, static_cast<int32_t>(token)});
  }
  for (Step& step : steps) {
    if (std::ranges::find(forbidden, step.token) != forbidden.end()) {
      step.sum = open.sum + kForbiddenScore;
    }
  }
  keep_best(steps);
  return steps;
}

void BeamSearch::keep_best(std::vector<Step>& steps) const {
  const auto count =
      std::min(static_cast<ptrdiff_t>(2 * request_.beam->beam_width), std::ssize(steps));
  std::partial_sort(steps.begin(), steps.begin() + count, steps.end(),
                    [](const Step& a, const Step& b) { return a.is_better_than(b); });
  steps.resize(static_cast<size_t>(count));
}

/// Ends texts and continues others. Which text each of them was.
std::vector<int64_t> BeamSearch::take_steps(const std::vector<Step>& steps) {
  const int64_t width = request_.beam->beam_width;
  std::vector<Open> next;
  std::vector<int64_t> sources;
  for (size_t i = 0; i < steps.size(); ++i) {
    // Mirrors Megatron-LM megatron/inference/text_generation/generation.py:
    // beam_search_and_return_on_first_stage. A text that ends counts only among the first
    // beam_width candidates; those after them are there to refill the beam.
    if (std::ssize(next) == width) break;
    const auto& [sum, beam, token] = steps[i];
    std::vector<int32_t> tokens = open_[static_cast<size_t>(beam)].tokens;
    tokens.push_back(token);
    if (token != request_.beam->stop_token) {
      next.push_back({std::move(tokens), sum});
      sources.push_back(beam);
    } else if (static_cast<int64_t>(i) < width) {
      ended_.add(std::move(tokens), sum, length_);
    }
  }
  open_ = std::move(next);
  return sources;
}

}  // namespace meg::generation
