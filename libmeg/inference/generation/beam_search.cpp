#include "libmeg/inference/generation/beam_search.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "libmeg/inference/generation/cached_model.h"
#include "libmeg/inference/generation/request_checks.h"
#include "libmeg/inference/generation/stop_rules.h"
#include "libmeg/inference/generation/token_scores.h"

namespace meg::inference {
namespace {

/// A beam's next token.
struct Step {
  double sum = 0;  ///< Of the log probabilities, with this token's.
  int64_t beam = 0;
  int32_t token = 0;
};

bool is_better(const Step& a, const Step& b) {
  if (a.sum != b.sum) return a.sum > b.sum;
  return std::pair(a.beam, a.token) < std::pair(b.beam, b.token);
}

/// The best texts that have ended.
class Ended {
 public:
  explicit Ended(const BeamSearchOptions& options) : options_(options) {}

  /// length: tokens behind the prompt.
  void add(std::vector<int32_t> tokens, double sum, int64_t length) {
    beams_.push_back({std::move(tokens), 0, score(sum, length)});
    std::stable_sort(beams_.begin(), beams_.end(),
                     [](const Beam& a, const Beam& b) { return a.score > b.score; });
    if (is_full()) beams_.resize(static_cast<size_t>(options_.beam_width));
  }

  /// Whether no open beam, the best of which has come to `sum`, can displace one.
  bool is_done(double sum, int64_t length) const {
    return is_full() && beams_.back().score >= score(sum, length);
  }

  std::vector<Beam> best(size_t prompt_size) && {
    const auto count = static_cast<size_t>(options_.num_return_gen);
    if (beams_.size() > count) beams_.resize(count);
    for (Beam& beam : beams_) beam.prompt_size = prompt_size;
    return std::move(beams_);
  }

 private:
  bool is_full() const { return beams_.size() >= static_cast<size_t>(options_.beam_width); }

  double score(double sum, int64_t length) const {
    return sum / std::pow(static_cast<double>(length), options_.length_penalty);
  }

  const BeamSearchOptions& options_;
  std::vector<Beam> beams_;  ///< Best first.
};

class Search {
 public:
  Search(CachedModel model, const Tokenizer& tokenizer, std::span<const int32_t> prompt,
         const BeamSearchOptions& options)
      : model_(std::move(model)),
        newline_(tokenizer),
        options_(options),
        prompt_size_(prompt.size()),
        ended_(options) {
    open_.push_back({{prompt.begin(), prompt.end()}, 0});
  }

  Result<std::vector<Beam>> run() {
    MEG_ASSIGN_OR_RETURN(at::Tensor states, read_prompt());
    for (int64_t length = 1;; ++length) {
      MEG_ASSIGN_OR_RETURN(const std::vector<Step> steps, best_steps(states));
      const std::vector<int64_t> sources = take(steps, length);
      if (ended_.is_done(steps.front().sum, length)) break;
      if (length == options_.tokens_to_generate) {
        for (Open& beam : open_) ended_.add(std::move(beam.tokens), beam.sum, length);
        break;
      }
      MEG_RETURN_IF_ERROR(model_.cache().rearrange(sources));
      MEG_ASSIGN_OR_RETURN(states, read_last_tokens());
    }
    return std::move(ended_).best(prompt_size_);
  }

 private:
  struct Open {
    std::vector<int32_t> tokens;
    double sum;
  };

  /// The hidden state of the prompt's last token, [1, h].
  Result<at::Tensor> read_prompt() {
    const std::vector<int32_t>& tokens = open_.front().tokens;
    const auto count = static_cast<int64_t>(tokens.size());
    const nn::CachedTokens sequence{0, count};
    MEG_ASSIGN_OR_RETURN(const at::Tensor states, model_.extend({&sequence, 1}, tokens));
    return states.narrow(0, count - 1, 1);
  }

  Result<at::Tensor> read_last_tokens() {
    std::vector<nn::CachedTokens> sequences;
    std::vector<int32_t> tokens;
    for (const Open& beam : open_) {
      sequences.push_back({static_cast<int64_t>(sequences.size()), 1});
      tokens.push_back(beam.tokens.back());
    }
    return model_.extend(sequences, tokens);
  }

  /// The 2 * beam_width best next tokens of all beams, best first: enough where each stops once.
  Result<std::vector<Step>> best_steps(const at::Tensor& states) {
    MEG_ASSIGN_OR_RETURN(const LogitRows rows, model_.logits(states));
    std::vector<Step> best;
    for (int64_t beam = 0; beam < rows.size(); ++beam) {
      const Open& open = open_[static_cast<size_t>(beam)];
      const double total = log_sum_exp(rows[beam]);
      std::optional<int32_t> never;
      if (options_.prevent_newline_after_colon) {
        never = newline_.forbidden_after(open.tokens.back());
      }
      std::vector<Step> steps;
      for (const float logit : rows[beam]) {
        const auto token = static_cast<int32_t>(steps.size());
        const double score = token == never ? -1e10 : double{logit} - total;
        steps.push_back({open.sum + score, beam, token});
      }
      keep_best(steps);
      best.insert(best.end(), steps.begin(), steps.end());
    }
    keep_best(best);
    return best;
  }

  void keep_best(std::vector<Step>& steps) const {
    const auto count = std::min(static_cast<ptrdiff_t>(2 * options_.beam_width), std::ssize(steps));
    std::partial_sort(steps.begin(), steps.begin() + count, steps.end(), is_better);
    steps.resize(static_cast<size_t>(count));
  }

  /// Ends beams and goes on with others. Which beam each of them was.
  std::vector<int64_t> take(const std::vector<Step>& steps, int64_t length) {
    std::vector<Open> next;
    std::vector<int64_t> sources;
    for (size_t i = 0; i < steps.size(); ++i) {
      if (std::ssize(next) == options_.beam_width) break;
      const auto& [sum, beam, token] = steps[i];
      std::vector<int32_t> tokens = open_[static_cast<size_t>(beam)].tokens;
      tokens.push_back(token);
      if (token != options_.stop_token) {
        next.push_back({std::move(tokens), sum});
        sources.push_back(beam);
      } else if (static_cast<int64_t>(i) < options_.beam_width) {
        ended_.add(std::move(tokens), sum, length);
      }
    }
    open_ = std::move(next);
    return sources;
  }

  CachedModel model_;
  NewlineAfterColon newline_;
  const BeamSearchOptions& options_;
  size_t prompt_size_;
  Ended ended_;
  std::vector<Open> open_;  ///< Best first; beam i lies in slot i.
};

Status check_options(const BeamSearchOptions& options, int64_t vocab_size) {
  if (options.beam_width < 1 || 2 * options.beam_width > vocab_size) {
    return make_error(StatusCode::kOutOfRange, "beam_width: expected 1 to {}, found {}",
                      vocab_size / 2, options.beam_width);
  }
  if (options.num_return_gen < 1 || options.num_return_gen > options.beam_width) {
    return make_error(StatusCode::kOutOfRange,
                      "num_return_gen: expected 1 to beam_width {}, found {}", options.beam_width,
                      options.num_return_gen);
  }
  if (options.tokens_to_generate < 1) {
    return make_error(StatusCode::kOutOfRange, "tokens_to_generate: expected 1 or more, found {}",
                      options.tokens_to_generate);
  }
  if (!std::isfinite(options.length_penalty)) {
    return make_error(StatusCode::kOutOfRange, "length_penalty: expected a number, found {}",
                      options.length_penalty);
  }
  return Status();
}

}  // namespace

Result<std::vector<Beam>> beam_search(nn::GptModel& model, const Tokenizer& tokenizer,
                                      std::span<const int32_t> prompt,
                                      const BeamSearchOptions& options) {
  const c10::InferenceMode inference;
  MEG_RETURN_IF_ERROR(check_options(options, tokenizer.vocab_size()));
  const int64_t positions = most_positions(model);
  MEG_RETURN_IF_ERROR(check_length(prompt, options.tokens_to_generate,
                                   {tokenizer.vocab_size(), positions, positions}));
  MEG_ASSIGN_OR_RETURN(CachedModel cached,
                       CachedModel::create(model, tokenizer.vocab_size(), options.beam_width,
                                           std::ssize(prompt) + options.tokens_to_generate));
  return Search(std::move(cached), tokenizer, prompt, options).run();
}

}  // namespace meg::inference
