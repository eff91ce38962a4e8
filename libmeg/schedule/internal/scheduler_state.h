#pragma once

#include <string>
#include <utility>
#include <vector>

#include "libmeg/schedule/optimizer_param_scheduler.h"

namespace meg::schedule {

/// A checkpoint's `opt_param_scheduler`, field by field.
std::vector<std::pair<std::string, megatron::FieldValue>> scheduler_state(
    const OptimizerParamScheduler::Options& options, int64_t num_steps);

struct LoadedSchedulerState {
  OptimizerParamScheduler::Options options;  ///< Which to continue with; not checked.
  int64_t num_steps = 0;
  std::vector<std::string> lines;  ///< What Megatron prints about each value.
};

/// Decides for each value between `given` (the flags) and the checkpoint; see
/// OptimizerParamScheduler::load_state_dict. Mirrors its _check_and_set.
Result<LoadedSchedulerState> load_scheduler_state(const megatron::FieldLookup& state,
                                                  const OptimizerParamScheduler::Options& given);

}  // namespace meg::schedule
