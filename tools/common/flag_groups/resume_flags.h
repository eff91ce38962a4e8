#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "libmeg/base/status.h"
#include "tools/common/flags/flags.h"

namespace meg::tools {

/// The own flags of verify resume, which two programs share: one plans without LibTorch, the other
/// computes.
struct ResumeFlags {
  std::optional<std::string> log, tensorboard;
  bool dry_run = false;
  std::optional<int64_t> steps;
  std::optional<int64_t> batch_samples;
  int64_t search_batches = 8;
  std::optional<double> loss_tolerance, grad_norm_tolerance;
  bool try_all = false;
  bool json = false;

  /// What --help begins with.
  static constexpr char kSummary[] =
      "computes the steps that a run's log shows after a checkpoint, and says whether it went on "
      "as "
      "it should have, or what did not resume; ends with exit code 1 if it differs and 2 if that "
      "cannot be judged. With --dry-run, before a run starts: what it will take from where. Beside "
      "--load, flags are those of the run; without a model among them they are the checkpoint's.";

  void declare(Flags& flags);

  /// What --steps says, or its default.
  int64_t steps_or_default() const { return steps.value_or(batch_samples.has_value() ? 1 : 4); }

  /// kInvalidArgument where two of them contradict each other.
  Status check() const;
};

}  // namespace meg::tools
