#include "libmeg/evaluation/scoring.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "libmeg/libtorch/device_copy.h"
#include "libmeg/libtorch/torch_guard.h"
#include "libmeg/parallel/pipeline_links.h"

// Scores are requested on the first rank and computed on all: sequences are shared out, sorted into
// batches of about one length and dealt to the copies of the model; within a copy a batch passes
// through the pipeline stages, whose last one scores it. What it finds goes back the same way once,
// at the end.

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
  // Checked here, as on a GPU a wrong id would end the process in the middle of a kernel.
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
  // Padding after a sequence changes nothing in it: attention looks back only.
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

/// What became of targets.
struct BatchScores {
  at::Tensor predicted;  ///< [targets] int64
  at::Tensor logprobs;   ///< [targets] fp32
};

/// Overwrites the logits, [n, v] fp32. targets: [n].
BatchScores score_logits(at::Tensor logits, const at::Tensor& targets, int64_t vocab_size) {
  // Leave out the rows that pad the vocabulary: they stand for no token.
  const at::Tensor known = logits.narrow(1, 0, vocab_size);
  const auto [largest, predicted] = known.max(1, /*keepdim=*/true);
  at::Tensor chosen = known.gather(1, targets.unsqueeze(1)).sub_(largest);
  const at::Tensor sums = known.sub_(largest).exp_().sum(1, /*keepdim=*/true);
  return {predicted.squeeze(1), chosen.sub_(sums.log_()).squeeze(1)};
}

using Batches = std::vector<std::vector<size_t>>;

int64_t count_targets(std::span<const ScoringSequence> sequences, const Batches& batches) {
  int64_t targets = 0;
  for (const std::vector<size_t>& batch : batches) {
    for (const size_t i : batch) targets += sequences[i].targets;
  }
  return targets;
}

/// The work of one copy of the model, each rank with its part.
class CopyOfModel {
 public:
  CopyOfModel(nn::GptModel& part, const parallel::ParallelState& ranks, int64_t vocab_size)
      : part_(part), ranks_(ranks), links_(ranks), vocab_size_(vocab_size) {}

  Status score(const Batch& batch) {
    const at::Device device = part_.options().device;
    const at::Tensor tokens = libtorch::sent_to(device, batch.tokens);
    nn::GptInput input = {.tokens = tokens};
    if (links_.is_last()) input.rows = libtorch::sent_to(device, batch.rows);
    if (!links_.is_first()) {
      input.hidden_states = at::empty({tokens.size(0), tokens.size(1), part_.config().hidden_size},
                                      tokens.options().dtype(part_.options().residual_dtype()));
      MEG_RETURN_IF_ERROR(links_.receive_forward(input.hidden_states));
    }
    MEG_ASSIGN_OR_RETURN(const at::Tensor hidden, part_.hidden_states(input));
    if (!links_.is_last()) return links_.send_forward(hidden);
    return score(hidden[0], libtorch::sent_to(device, batch.targets));
  }

  /// The scores of all batches, on the first stage. targets: their number in all batches.
  Result<BatchScores> scores(int64_t targets) {
    MEG_RETURN_IF_ERROR(links_.finish());
    // Share once for all batches: a broadcast for each would make every stage wait for the last
    // one.
    if (links_.is_last() && targets > 0) {
      const BatchScores all = {at::cat(predicted_), at::cat(logprobs_)};
      MEG_RETURN_IF_ERROR(share(all));
      return all;
    }
    const auto like = at::device(part_.options().device);
    const BatchScores all = {at::empty({targets}, like.dtype(at::kLong)),
                             at::empty({targets}, like.dtype(at::kFloat))};
    if (targets > 0) MEG_RETURN_IF_ERROR(share(all));
    return all;
  }

 private:
  /// Brings what the last stage found to all stages.
  Status share(const BatchScores& scores) {
    parallel::ProcessGroup& stages = *ranks_.pipeline();
    MEG_RETURN_IF_ERROR(stages.broadcast(scores.predicted, stages.size() - 1));
    return stages.broadcast(scores.logprobs, stages.size() - 1);
  }

  Status score(const at::Tensor& rows, const at::Tensor& targets) {
    for (int64_t first = 0; first < rows.size(0); first += kRowsAtOnce) {
      const int64_t count = std::min(kRowsAtOnce, rows.size(0) - first);
      MEG_ASSIGN_OR_RETURN(at::Tensor logits,
                           part_.logits_of(rows.narrow(0, first, count), vocab_size_));
      BatchScores found =
          score_logits(std::move(logits), targets.narrow(0, first, count), vocab_size_);
      predicted_.push_back(std::move(found.predicted));
      logprobs_.push_back(std::move(found.logprobs));
    }
    return {};
  }

  nn::GptModel& part_;
  const parallel::ParallelState& ranks_;
  parallel::PipelineLinks links_;
  int64_t vocab_size_;
  std::vector<at::Tensor> predicted_, logprobs_;  ///< Of targets, on the last stage.
};

/// An error if the logits of one of a sequence's targets were not finite.
Status check(const ScoringSequence& sequence, const SequenceScore& score) {
  const auto marked = std::ranges::find_if(score.logprobs, [](float x) { return std::isnan(x); });
  if (marked == score.logprobs.end()) return {};
  const int64_t token = sequence.first_token + std::ssize(sequence.tokens) - sequence.targets +
                        (marked - score.logprobs.begin());
  return nn::not_finite_logits().with_prefix(
      fmt::format("text {}: token {}", sequence.text, token));
}

/// Gives each sequence of these batches its part of what they found.
Status hand_out(const BatchScores& scores, const Batches& batches,
                std::span<const ScoringSequence> sequences, std::vector<SequenceScore>& answers) {
  const at::Tensor predicted = scores.predicted.to(at::kInt).cpu();
  const at::Tensor logprobs = scores.logprobs.cpu();
  const auto* token = predicted.const_data_ptr<int32_t>();
  const auto* logprob = logprobs.const_data_ptr<float>();
  for (const std::vector<size_t>& batch : batches) {
    for (const size_t i : batch) {
      const int64_t count = sequences[i].targets;
      answers[i].predicted.assign(token, token + count);
      answers[i].logprobs.assign(logprob, logprob + count);
      token += count;
      logprob += count;
      MEG_RETURN_IF_ERROR(check(sequences[i], answers[i]));
    }
  }
  return {};
}

/// What copy `copy` of `copies` computes: batches of about one length at the same time.
Batches batches_of(const Batches& batches, int copy, int copies) {
  Batches own;
  for (auto i = static_cast<size_t>(copy); i < batches.size(); i += static_cast<size_t>(copies)) {
    own.push_back(batches[i]);
  }
  return own;
}

/// Brings the scores of all copies to the first, which hands them out.
Status collect(BatchScores own, const Batches& batches, std::span<const ScoringSequence> sequences,
               parallel::ProcessGroup& copies, std::vector<SequenceScore>& answers) {
  if (copies.rank() > 0) {
    if (own.predicted.numel() == 0) return {};
    MEG_RETURN_IF_ERROR(copies.send(own.predicted, 0));
    return copies.send(own.logprobs, 0);
  }
  for (int copy = 0; copy < copies.size(); ++copy) {
    const Batches of_copy = batches_of(batches, copy, copies.size());
    const int64_t targets = count_targets(sequences, of_copy);
    if (targets == 0) continue;
    if (copy > 0) {
      own = {at::empty({targets}, own.predicted.options()),
             at::empty({targets}, own.logprobs.options())};
      MEG_RETURN_IF_ERROR(copies.receive(own.predicted, copy));
      MEG_RETURN_IF_ERROR(copies.receive(own.logprobs, copy));
    }
    MEG_RETURN_IF_ERROR(hand_out(own, of_copy, sequences, answers));
  }
  return {};
}

Status score_batches(nn::GptModel& model, std::span<const ScoringSequence> sequences,
                     const ScoringOptions& options, const parallel::ParallelState& ranks,
                     std::vector<SequenceScore>& answers) {
  const c10::InferenceMode without_gradients;
  const Batches batches = scoring_batches(sequences, options);
  parallel::ProcessGroup& copies = *ranks.data();
  const Batches own = batches_of(batches, copies.rank(), copies.size());
  CopyOfModel copy(model, ranks, options.vocab_size);
  Progress now{.total_documents = std::ssize(sequences)};
  for (size_t number = 0; number < own.size(); ++number) {
    if (options.on_batch) options.on_batch(static_cast<int64_t>(number));
    MEG_RETURN_IF_ERROR(copy.score(make_batch(sequences, own[number])));
    // Count as if all copies were as far as this one, which their equal batches make nearly true.
    now.documents += std::ssize(own[number]) * copies.size();
    for (const size_t i : own[number]) now.tokens += input_size(sequences[i]) * copies.size();
    now.documents = std::min(now.documents, now.total_documents);
    if (options.progress && !options.progress(now)) {
      return Status(StatusCode::kCancelled, "scoring: cancelled");
    }
  }
  MEG_ASSIGN_OR_RETURN(BatchScores scores, copy.scores(count_targets(sequences, own)));
  answers.resize(sequences.size());
  return collect(std::move(scores), batches, sequences, copies, answers);
}

/// What the first rank was asked to score, on all ranks.
struct SharedWork {
  std::vector<ScoringSequence> sequences;
  ScoringOptions options;
  std::vector<std::vector<int32_t>> tokens;  ///< Of `sequences`, on other ranks.
};

Result<SharedWork> share_work(std::span<const ScoringSequence> sequences,
                              const ScoringOptions& options, parallel::ProcessGroup& world) {
  SharedWork work = {
      .sequences = {sequences.begin(), sequences.end()}, .options = options, .tokens = {}};
  if (world.size() == 1) return work;
  std::vector<int64_t> numbers = {options.vocab_size, options.batch_tokens,
                                  options.batch_sequences.value_or(0)};
  for (const ScoringSequence& sequence : sequences) {
    // All of the work in one list, so that it is one message however many sequences there are.
    numbers.insert(numbers.end(), {sequence.targets, sequence.text, sequence.first_token,
                                   std::ssize(sequence.tokens)});
    numbers.insert(numbers.end(), sequence.tokens.begin(), sequence.tokens.end());
  }
  MEG_RETURN_IF_ERROR(parallel::broadcast(world, numbers, 0));
  if (world.rank() == 0) return work;
  work.options.vocab_size = numbers[0];
  work.options.batch_tokens = numbers[1];
  if (numbers[2] > 0) work.options.batch_sequences = numbers[2];
  for (auto next = numbers.begin() + 3; next != numbers.end();) {
    ScoringSequence sequence;
    sequence.targets = *next++;
    sequence.text = *next++;
    sequence.first_token = *next++;
    const int64_t size = *next++;
    work.tokens.emplace_back(next, next + size);
    sequence.tokens = work.tokens.back();
    work.sequences.push_back(sequence);
    next += size;
  }
  return work;
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
    // The longest first: neighbours need little padding, and too little memory shows at once.
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
                                                   const ScoringOptions& options,
                                                   const parallel::ParallelState& ranks) {
  const bool is_first = ranks.world().rank() == 0;
  MEG_RETURN_IF_ERROR(ranks.agree(is_first ? check(sequences, model, options) : Status()));
  ScoringOptions chosen = options;
  if (chosen.batch_tokens == 0) {
    chosen.batch_tokens = quick_batch_tokens(model.options().device);
  }
  MEG_ASSIGN_OR_RETURN(const SharedWork work, share_work(sequences, chosen, ranks.world()));
  std::vector<SequenceScore> answers;
  MEG_RETURN_IF_ERROR(libtorch::torch_guard(
      [&] { return score_batches(model, work.sequences, work.options, ranks, answers); }));
  if (!is_first) answers.clear();
  return answers;
}

Status follow_scoring(nn::GptModel& model, const parallel::ParallelState& ranks) {
  return score_sequences(model, {}, {}, ranks).status();
}

}  // namespace meg::evaluation
