#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/checkpoint/training/training_state.h"
#include "libmeg/train/trainer.h"

namespace meg::resume {

/// Which figures a fault of a resumed run changes first.
enum class FirstChange : uint8_t {
  kSchedule,  ///< The learning rate, the loss scale or another figure that no weight decides.
  kLoss,      ///< The loss of the first step: other samples, weights or random states.
  kUpdate,    ///< The first update, so the loss of the second step.
};

/// A way in which a run does not go on as it should.
struct Hypothesis {
  std::string name;   ///< One word of its kind, such as "moments-zeroed".
  std::string cause;  ///< What happened, in words.
  FirstChange first = FirstChange::kLoss;
  std::function<void(train::TrainerOptions&)> options = {};  ///< Changes the run; may be empty.
  /// Changes what was loaded; may be empty.
  std::function<Status(train::RunParts, train::TrainingProgress&)> loaded = {};
  /// Puts rows of the vocabulary's tables into other places: returns a new table; may be empty.
  std::function<at::Tensor(const at::Tensor&)> vocabulary = {};
  int64_t sample_shift = 0;  ///< Samples by which the run reads others than it counts.
  /// The iteration of the checkpoint that its weights alone come from; nullopt: the run's.
  std::optional<int64_t> weights_of = std::nullopt;

  /// Whether the weights of a checkpoint and a run's options are all that it takes.
  bool needs_no_optimizer() const {
    return first == FirstChange::kLoss && (!loaded || sample_shift != 0 || weights_of.has_value());
  }
};

/// What hypotheses are made of.
struct ResumeCase {
  train::TrainerOptions options;          ///< Of the run as it should go on; loads the checkpoint.
  checkpoint::TrainingState state;        ///< Of the checkpoint, without tensors.
  std::vector<int64_t> other_iterations;  ///< Of other checkpoints in the same folder.
  /// Of the checkpoint's files.
  int64_t tensor_model_parallel_size = 1, pipeline_model_parallel_size = 1;
  /// A folder for index caches of other samples, which are no part of the run.
  std::string cache_path;
};

/// All that are tried for this run, the likeliest first. The case must outlive them.
std::vector<Hypothesis> hypotheses_of(const ResumeCase& resumed);

/// The run reads samples that begin `shift` after those that are due.
Hypothesis shifted_samples(int64_t shift);

/// Changes what was loaded as a hypothesis says.
Status after_load(const Hypothesis& hypothesis, train::RunParts parts,
                  train::TrainingProgress& progress);

/// Two faults at once.
Hypothesis both(const Hypothesis& one, const Hypothesis& other);

/// What no log of losses, norms, rates and scales can show, or is not tried, for a report.
std::vector<std::string> hypotheses_not_tried();

}  // namespace meg::resume
