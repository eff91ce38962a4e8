#include "libmeg/train/internal/train_step.h"

#include <ATen/ATen.h>

#include <utility>

#include "libmeg/libtorch/torch_guard.h"
#include "libmeg/nn/expert_biases.h"
#include "libmeg/train/internal/pipeline/pipeline_stage.h"

// One step: the schedule's forward and backward passes, the sums over ranks, the losses. Without a
// pipeline the same code runs with one stage, whose schedule is forward and backward of each
// micro-batch in turn.
//
// Each micro-batch's loss is multiplied by loss_scale / micro_batches before backward, so that the
// sum of gradients is that of the mean. With --calculate-per-token-loss the divisor is known only
// when all tokens are counted, so gradients are scaled after the sum.

namespace meg::train {
namespace {

MicroBatchLoss total_loss(const std::vector<MicroBatchLoss>& losses) {
  MicroBatchLoss total;
  for (const MicroBatchLoss& loss : losses) {
    total.loss_sum += loss.loss_sum;
    total.tokens += loss.tokens;
  }
  return total;
}

/// What the last stage has of its micro-batches' losses, on all stages of all data-parallel ranks:
/// as many of each of these.
Result<std::vector<MicroBatchLoss>> of_all_ranks(const parallel::ParallelState& ranks,
                                                 const std::vector<MicroBatchLoss>& losses) {
  if (ranks.data()->size() == 1 && ranks.pipeline()->size() == 1) return losses;
  std::vector<double> figures;
  for (const MicroBatchLoss& loss : losses) {
    figures.insert(figures.end(), {loss.loss_sum, loss.tokens});
  }
  const auto count = static_cast<int64_t>(figures.size());
  // Stages other than the last have zeros here, which the last stage's losses replace.
  MEG_RETURN_IF_ERROR(ranks.pipeline()->broadcast(
      at::from_blob(figures.data(), {count}, at::kDouble), ranks.pipeline()->size() - 1));
  MEG_ASSIGN_OR_RETURN(figures, parallel::gather(*ranks.data(), std::move(figures)));
  std::vector<MicroBatchLoss> all;
  for (size_t i = 0; i < figures.size(); i += 2) {
    all.push_back({.loss_sum = figures[i], .tokens = figures[i + 1]});
  }
  return all;
}

/// Adds up what ranks with different tokens counted: those of other samples, and of other parts of
/// the sequences.
Status sum_over_tokens(const at::Tensor& counts, parallel::ProcessGroup& copies,
                       const nn::TensorParallel& parts) {
  MEG_RETURN_IF_ERROR(copies.all_reduce(counts));
  return parts.splits_sequences() ? parts.group->all_reduce(counts) : Status();
}

/// What routers know of the other micro-batches and ranks of a step, none of them yet.
void begin_step(const ModelChunks& model, const parallel::ParallelState& ranks) {
  for (int64_t chunk = 0; chunk < model.size(); ++chunk) {
    nn::AuxiliaryLosses& losses = model[chunk].auxiliary_losses();
    losses.begin_step();
    losses.copies = ranks.data()->size();
    losses.sum_over_all_ranks = [copies = ranks.data(),
                                 parts = model.part().tensor_parallel](const at::Tensor& tokens) {
      libtorch::throw_if_error(sum_over_tokens(tokens, *copies, parts));
    };
  }
}

/// Moves the biases of routers by the tokens of the whole batch.
Status move_expert_biases(const ModelChunks& model, const parallel::ParallelState& ranks) {
  const auto biases = model.expert_biases();
  if (biases.empty()) return {};
  return libtorch::torch_guard([&]() -> Status {
    const at::Tensor tokens = nn::tokens_per_expert(biases);
    MEG_RETURN_IF_ERROR(sum_over_tokens(tokens, *ranks.data(), model.part().tensor_parallel));
    nn::move_expert_biases(biases, tokens, model.options().moe.router_bias_update_rate);
    return {};
  });
}

/// take: of each step in its order.
template <class Take>
Status take_steps(const std::vector<PipelineStep>& steps, Take take) {
  for (const PipelineStep& step : steps) {
    MEG_RETURN_IF_ERROR(libtorch::torch_guard([&] { return take(step); }));
  }
  return {};
}

}  // namespace

Result<std::vector<MicroBatchLoss>> forward_backward(const ModelChunks& model, Optimizer& optimizer,
                                                     const NextMicroBatch& next,
                                                     int64_t micro_batches, StepLoss step_loss,
                                                     const parallel::ParallelState& ranks,
                                                     std::optional<int64_t> group,
                                                     ScheduleTrace* trace) {
  model.set_training(true);
  begin_step(model, ranks);
  const bool per_token = step_loss == StepLoss::kMeanOfTokens;
  MEG_RETURN_IF_ERROR(optimizer.zero_grad({.only = micro_batches == 1 && !per_token,
                                           .scale = per_token ? 1 : 1.0 / ranks.data()->size()}));
  const double shares = per_token ? 1 : static_cast<double>(micro_batches);
  PipelineStage stage(model, next, ranks, group, trace);
  const auto take = [&](const PipelineStep& step) {
    // Only with the last micro-batch are gradients complete and may be sent while backward
    // continues. Said before forward steps too, since the last chunk computes its gradients there.
    optimizer.expect_gradients(/*last=*/step.micro_batch + 1 == micro_batches);
    if (step.pass == PipelineStep::Pass::kBackward) return stage.backward(step);
    return stage.forward(step, optimizer.loss_scale() / shares, step_loss);
  };
  MEG_RETURN_IF_ERROR(take_steps(pipeline_schedule(stage.place(), micro_batches), take));
  MEG_ASSIGN_OR_RETURN(std::vector<MicroBatchLoss> found, stage.finish());
  // Call this also where no reduction overlaps: then all of it happens here.
  MEG_RETURN_IF_ERROR(
      traced(trace, "reduce gradients", nullptr, [&] { return optimizer.reduce_gradients(); }));
  MEG_RETURN_IF_ERROR(move_expert_biases(model, ranks));
  MEG_ASSIGN_OR_RETURN(found, of_all_ranks(ranks, found));
  const double tokens = total_loss(found).tokens;
  // A step without a single kept token keeps its gradients of zero.
  if (per_token && tokens > 0) MEG_RETURN_IF_ERROR(optimizer.scale_gradients(1 / tokens));
  return found;
}

Result<std::vector<MicroBatchLoss>> forward_only(const ModelChunks& model,
                                                 const NextMicroBatch& next, int64_t micro_batches,
                                                 const parallel::ParallelState& ranks,
                                                 std::optional<int64_t> group,
                                                 std::optional<int64_t> most) {
  model.set_training(false);
  PipelineStage stage(model, next, ranks, group);
  MEG_RETURN_IF_ERROR(take_steps(forward_schedule(stage.place(), micro_batches),
                                 [&](const PipelineStep& step) { return stage.evaluate(step); }));
  MEG_ASSIGN_OR_RETURN(std::vector<MicroBatchLoss> found, stage.finish());
  // Rounds with fewer micro-batches are filled up with losses of no tokens, since a gather needs as
  // many of each rank.
  found.resize(static_cast<size_t>(most.value_or(micro_batches)));
  return of_all_ranks(ranks, found);
}

double reported_loss(const std::vector<MicroBatchLoss>& losses, bool over_tokens) {
  if (over_tokens) return total_loss(losses).mean();
  double means = 0;
  for (const MicroBatchLoss& loss : losses) means += loss.mean();
  return losses.empty() ? 0.0 : means / static_cast<double>(losses.size());
}

}  // namespace meg::train
