#include "libmeg/evaluation/scoring.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "libmeg/libtorch/device_copy.h"
#include "libmeg/libtorch/torch_guard.h"

namespace meg::evaluation {
namespace {

/// Tokens of a batch: on CPUs as few as keep the threads busy, since short batches need less
/// padding and stay in the caches.
constexpr int64_t kBatchTokensOfThread = 256;
constexpr int64_t kLeastBatchTokens = 512;
constexpr int64_t kBatchTokensOnGpu = 32768;

/// Rows of logits in memory at a time.
constexpr int64_t kRowsAtOnce = 1024;

int64_t quick_batch_tokens(at::Device device) {
  if (!device.is_cpu()) return kBatchTokensOnGpu;
  return std::max(kLeastBatchTokens, kBatchTokensOfThread * at::get_num_threads());
}

/// Tokens that go in: the last one is only asked about.
int64_t input_size(const ScoringSequence& sequence) {
  return static_cast<int64_t>(sequence.tokens.size()) - 1;
}

Status check(const ScoringSequence& sequence, int64_t vocab_size) {
  if (sequence.targets < 1 || sequence.targets > input_size(sequence)) {
    return make_error(StatusCode::kInvalidArgument, "expected 1 to {} targets, found {}",
                      input_size(sequence), sequence.targets);
  }
  const auto strange =
      std::find_if(sequence.tokens.begin(), sequence.tokens.end(),
                   [vocab_size](int32_t id) { return id < 0 || id >= vocab_size; });
  if (strange == sequence.tokens.end()) return Status();
  return make_error(StatusCode::kOutOfRange, "expected ids 0 to {}, found {}", vocab_size - 1,
                    *strange);
}

Status check(std::span<const ScoringSequence> sequences, const nn::GptModel& model,
             const ScoringOptions& options) {
  const int64_t rows = model.config().padded_vocab_size;
  if (options.vocab_size < 1 || options.vocab_size > rows) {
    return make_error(StatusCode::kInvalidArgument, "vocab_size: expected 1 to {}, found {}", rows,
                      options.vocab_size);
  }
  for (size_t i = 0; i < sequences.size(); ++i) {
    const Status fits = check(sequences[i], options.vocab_size);
    if (!fits.ok()) return fits.with_prefix(fmt::format("sequence {}", i));
  }
  return Status();
}

/// A batch as the model takes it, on the CPU.
struct Batch {
  at::Tensor tokens;   ///< [b, s], padded on the right with zeros.
  at::Tensor rows;     ///< Of the hidden states as [b * s, h]: those before the targets.
  at::Tensor targets;  ///< The targets, one for each of rows.
};

Batch make_batch(std::span<const ScoringSequence> sequences, const std::vector<size_t>& members) {
  int64_t length = 0, targets = 0;
  for (const size_t i : members) {
    length = std::max(length, input_size(sequences[i]));
    targets += sequences[i].targets;
  }
  Batch batch;
  batch.tokens = at::zeros({static_cast<int64_t>(members.size()), length}, at::kLong);
  batch.rows = at::empty({targets}, at::kLong);
  batch.targets = at::empty({targets}, at::kLong);
  auto* tokens = batch.tokens.mutable_data_ptr<int64_t>();
  auto* rows = batch.rows.mutable_data_ptr<int64_t>();
  auto* wanted = batch.targets.mutable_data_ptr<int64_t>();
  for (size_t member = 0; member < members.size(); ++member) {
    const ScoringSequence& sequence = sequences[members[member]];
    const int64_t size = input_size(sequence);
    const int64_t start = static_cast<int64_t>(member) * length;
    std::copy_n(sequence.tokens.begin(), size, tokens + start);
    for (int64_t place = size - sequence.targets; place < size; ++place) {
      *rows++ = start + place;
      *wanted++ = sequence.tokens[static_cast<size_t>(place) + 1];
    }
  }
  return batch;
}

/// What became of a batch's targets, on the model's device.
struct BatchScores {
  at::Tensor predicted;  ///< [targets] int64
  at::Tensor logprobs;   ///< [targets] fp32
};

/// Overwrites the logits, [n, v] fp32. targets: [n].
BatchScores score_logits(at::Tensor logits, const at::Tensor& targets, int64_t vocab_size) {
  const at::Tensor known = logits.narrow(1, 0, vocab_size);
  const auto [largest, predicted] = known.max(1, /*keepdim=*/true);
  at::Tensor chosen = known.gather(1, targets.unsqueeze(1)).sub_(largest);
  const at::Tensor sums = known.sub_(largest).exp_().sum(1, /*keepdim=*/true);
  return {predicted.squeeze(1), chosen.sub_(sums.log_()).squeeze(1)};
}

Status score_batch(nn::GptModel& model, const Batch& batch, int64_t vocab_size,
                   std::vector<BatchScores>& scores) {
  const at::Device device = model.options().device;
  MEG_ASSIGN_OR_RETURN(const at::Tensor hidden,
                       model.hidden_states({.tokens = libtorch::sent_to(device, batch.tokens),
                                            .rows = libtorch::sent_to(device, batch.rows)}));
  const at::Tensor rows = hidden[0];
  const at::Tensor targets = libtorch::sent_to(device, batch.targets);
  for (int64_t first = 0; first < rows.size(0); first += kRowsAtOnce) {
    const int64_t count = std::min(kRowsAtOnce, rows.size(0) - first);
    MEG_ASSIGN_OR_RETURN(at::Tensor logits, model.logits_of(rows.narrow(0, first, count)));
    scores.push_back(score_logits(std::move(logits), targets.narrow(0, first, count), vocab_size));
  }
  return Status();
}

/// Gives each sequence its part of what all batches found.
std::vector<SequenceScore> hand_out(const std::vector<BatchScores>& scores,
                                    const std::vector<std::vector<size_t>>& batches,
                                    std::span<const ScoringSequence> sequences) {
  std::vector<at::Tensor> all_predicted, all_logprobs;
  for (const BatchScores& part : scores) {
    all_predicted.push_back(part.predicted);
    all_logprobs.push_back(part.logprobs);
  }
  std::vector<SequenceScore> answers(sequences.size());
  if (all_predicted.empty()) return answers;
  const at::Tensor predicted = at::cat(all_predicted).to(at::kInt).cpu();
  const at::Tensor logprobs = at::cat(all_logprobs).cpu();
  const auto* token = predicted.const_data_ptr<int32_t>();
  const auto* logprob = logprobs.const_data_ptr<float>();
  for (const std::vector<size_t>& batch : batches) {
    for (const size_t i : batch) {
      const int64_t count = sequences[i].targets;
      answers[i].predicted.assign(token, token + count);
      answers[i].logprobs.assign(logprob, logprob + count);
      token += count;
      logprob += count;
    }
  }
  return answers;
}

Status score_batches(nn::GptModel& model, std::span<const ScoringSequence> sequences,
                     const std::vector<std::vector<size_t>>& batches, const ScoringOptions& options,
                     std::vector<SequenceScore>& answers) {
  const c10::InferenceMode without_gradients;
  std::vector<BatchScores> scores;
  Progress now{.total_documents = std::ssize(sequences)};
  for (size_t number = 0; number < batches.size(); ++number) {
    if (options.on_batch) options.on_batch(static_cast<int64_t>(number));
    MEG_RETURN_IF_ERROR(
        score_batch(model, make_batch(sequences, batches[number]), options.vocab_size, scores));
    now.documents += std::ssize(batches[number]);
    for (const size_t i : batches[number]) now.tokens += input_size(sequences[i]);
    if (options.progress && !options.progress(now)) {
      return Status(StatusCode::kCancelled, "scoring: cancelled");
    }
  }
  answers = hand_out(scores, batches, sequences);
  return Status();
}

}  // namespace

double SequenceScore::logprob() const {
  return std::accumulate(logprobs.begin(), logprobs.end(), 0.0);
}

std::vector<std::vector<size_t>> scoring_batches(std::span<const ScoringSequence> sequences,
                                                 const ScoringOptions& options) {
  std::vector<size_t> order(sequences.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return input_size(sequences[a]) > input_size(sequences[b]);
  });
  std::vector<std::vector<size_t>> batches;
  for (const size_t i : order) {
    const auto is_full = [&](const std::vector<size_t>& batch) {
      const auto size = static_cast<int64_t>(batch.size());
      if (options.batch_sequences.has_value()) return size >= *options.batch_sequences;
      return (size + 1) * input_size(sequences[batch.front()]) > options.batch_tokens;
    };
    if (batches.empty() || is_full(batches.back())) batches.emplace_back();
    batches.back().push_back(i);
  }
  return batches;
}

Result<std::vector<SequenceScore>> score_sequences(nn::GptModel& model,
                                                   std::span<const ScoringSequence> sequences,
                                                   const ScoringOptions& options) {
  MEG_RETURN_IF_ERROR(check(sequences, model, options));
  ScoringOptions chosen = options;
  if (chosen.batch_tokens == 0) {
    chosen.batch_tokens = quick_batch_tokens(model.options().device);
  }
  const std::vector<std::vector<size_t>> batches = scoring_batches(sequences, chosen);
  std::vector<SequenceScore> answers;
  MEG_RETURN_IF_ERROR(libtorch::torch_guard(
      [&] { return score_batches(model, sequences, batches, options, answers); }));
  return answers;
}

}  // namespace meg::evaluation
