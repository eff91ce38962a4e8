#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/nn/gpt_model.h"
#include "libmeg/train/trainer.h"

namespace meg::train {

/// The loss of one sample over the tokens that its loss mask keeps.
struct SampleLoss {
  double loss_sum = 0;  ///< Sum of token losses, which are rounded to fp32.
  double tokens = 0;    ///< Number of tokens that the mask keeps.
};

/// Training samples of a run.
struct SamplesOfBatch {
  int64_t consumed = 0;            ///< Samples of the split before the batch.
  std::vector<int64_t> positions;  ///< Places in the batch, from 0 on and ascending; at least one.
};

/// Callbacks of streamed_losses(); each may be empty.
struct StreamedLossHooks {
  /// Called with each layer, and what stands before the first and after the last, when its weights
  /// are loaded; may change them.
  std::function<Status(nn::GptModel& part)> loaded = {};
  /// Called after each pass of a sample through a layer, with those that are done and all.
  std::function<void(int64_t done, int64_t all)> passed = {};
};

/// Computes the losses of single training samples with the weights of the checkpoint that the run
/// loads: forward passes with the run's dropout (its generators as seeded), one layer after
/// another. Only one layer's weights are in memory at a time, and no optimizer, so the model may be
/// larger than memory. Errors: those of Trainer for such a run; kUnsupported for what
/// depends on the other samples of a micro-batch: a capacity of experts, an order other than
/// "single".
Result<std::vector<SampleLoss>> streamed_losses(const TrainerOptions& options,
                                                const SamplesOfBatch& samples,
                                                const StreamedLossHooks& hooks = {});

}  // namespace meg::train
