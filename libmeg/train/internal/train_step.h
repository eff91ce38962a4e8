#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/parallel/parallel_state.h"
#include "libmeg/samples/batches/sample_loader.h"
#include "libmeg/train/internal/pipeline/schedule_trace.h"
#include "libmeg/train/model_chunks.h"
#include "libmeg/train/optimizer.h"

namespace meg::train {

/// Loss of one micro-batch over the tokens that the loss mask keeps.
struct MicroBatchLoss {
  double loss_sum = 0;  ///< Of token losses, fp32 rounded.
  double tokens = 0;    ///< Kept ones.

  double mean() const { return tokens > 0 ? loss_sum / tokens : 0.0; }
};

/// Gives micro-batches one after another; an error where there are none left.
using NextMicroBatch = std::function<Result<const samples::MicroBatch*>()>;

/// The loss of a step whose gradients are taken.
enum class StepLoss : uint8_t {
  kMeanOfMicroBatches,  ///< Of each micro-batch's mean over its tokens: Megatron's default.
  kMeanOfTokens,        ///< Over all tokens of the step: --calculate-per-token-loss.
};

/// Forward and backward of `micro_batches` micro-batches on each data-parallel rank; the optimizer
/// then holds the gradients of their loss, multiplied by its loss scale. Returns those of all
/// ranks. group: micro-batches that a virtual stage takes one after the other; nullopt: as many as
/// there are stages. trace: where not null, of what is computed. Mirrors Megatron-LM
/// megatron/core/pipeline_parallel/schedules.py: get_forward_backward_func, pretrain_gpt.py:
/// loss_func, and megatron/core/distributed/finalize_model_grads.py.
Result<std::vector<MicroBatchLoss>> forward_backward(
    const ModelChunks& model, Optimizer& optimizer, const NextMicroBatch& next,
    int64_t micro_batches, StepLoss step_loss = StepLoss::kMeanOfMicroBatches,
    const parallel::ParallelState& ranks = {}, std::optional<int64_t> group = std::nullopt,
    ScheduleTrace* trace = nullptr);

/// Forward alone, without gradients and dropout. most: micro-batches of the copy of the model that
/// has most of them, where they differ; losses of those that others lack are of no tokens.
Result<std::vector<MicroBatchLoss>> forward_only(const ModelChunks& model,
                                                 const NextMicroBatch& next, int64_t micro_batches,
                                                 const parallel::ParallelState& ranks = {},
                                                 std::optional<int64_t> group = std::nullopt,
                                                 std::optional<int64_t> most = std::nullopt);

/// What Megatron prints of a step: from core 0.7 on the mean over all tokens, before it the mean of
/// the micro-batches' means.
double reported_loss(const std::vector<MicroBatchLoss>& losses, bool over_tokens);

}  // namespace meg::train
