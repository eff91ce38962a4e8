#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/megatron/argument_values.h"

namespace meg::tools {

/// Where the run of a checkpoint stands.
struct CheckpointRun {
  std::string folder;  ///< iter_0005000
  std::optional<int64_t> iteration;
  std::optional<int64_t> consumed_samples;  ///< consumed_train_samples; nullopt: not in its args.
  std::vector<std::string> notes;           ///< What a user should know; one line each.
};

/// Takes the arguments that say which samples a run sees, and its tokenizer, from the args of the
/// checkpoint at `load`, where no flag gives them. iteration: instead of the tracker's. Nothing but
/// args must be readable, so that any model will do. kInvalidArgument where a flag contradicts
/// args; kUnsupported for args that change samples and that libmeg does not know how;
/// kNotFound without args.
Result<CheckpointRun> take_run_of_checkpoint(const std::string& load,
                                             std::optional<int64_t> iteration,
                                             megatron::ArgumentValues& args);

}  // namespace meg::tools
