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
  double loss_sum = 0;  ///< Sum of token losses, which are rounded to fp32.
  double tokens = 0;    ///< Number of tokens that the mask keeps.

  double mean() const { return tokens > 0 ? loss_sum / tokens : 0.0; }
};

/// Returns the next micro-batch; an error if none is left.
using NextMicroBatch = std::function<Result<const samples::MicroBatch*>()>;

/// The loss of a step, whose gradients are computed.
enum class StepLoss : uint8_t {
  kMeanOfMicroBatches,  ///< The mean of the micro-batches' means over tokens: Megatron's default.
  kMeanOfTokens,        ///< The mean over all tokens of the step: --calculate-per-token-loss.
};

/// Runs the forward and backward passes of `micro_batches` micro-batches on each data-parallel
/// rank; the optimizer then holds the gradients of their loss, multiplied by its loss scale, and
/// routers' biases have moved (also where the optimizer will skip the step, as in Megatron).
/// Returns the losses of all ranks. group: consecutive micro-batches of a virtual stage; nullopt:
/// the number of stages. trace: records the computation unless null. Mirrors Megatron-LM
/// megatron/core/pipeline_parallel/schedules.py: get_forward_backward_func, pretrain_gpt.py:
/// loss_func, and megatron/core/distributed/finalize_model_grads.py.
Result<std::vector<MicroBatchLoss>> forward_backward(
    const ModelChunks& model, Optimizer& optimizer, const NextMicroBatch& next,
    int64_t micro_batches, StepLoss step_loss = StepLoss::kMeanOfMicroBatches,
    const parallel::ParallelState& ranks = {}, std::optional<int64_t> group = std::nullopt,
    ScheduleTrace* trace = nullptr);

/// Runs only forward passes, without gradients and dropout. most: the maximum number of
/// micro-batches of any copy of the model, if they differ; copies with fewer return losses of zero
/// tokens for the rest.
Result<std::vector<MicroBatchLoss>> forward_only(const ModelChunks& model,
                                                 const NextMicroBatch& next, int64_t micro_batches,
                                                 const parallel::ParallelState& ranks = {},
                                                 std::optional<int64_t> group = std::nullopt,
                                                 std::optional<int64_t> most = std::nullopt);

/// The loss that Megatron prints for a step: since core 0.7 the mean over all tokens, before that
/// the mean of the micro-batches' means.
double reported_loss(const std::vector<MicroBatchLoss>& losses, bool over_tokens);

}  // namespace meg::train
