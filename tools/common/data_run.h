#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/samples/batches/batch_sampler.h"
#include "libmeg/samples/batches/batch_schedule.h"
#include "libmeg/samples/gpt_datasets.h"
#include "tools/common/data_flags.h"

namespace meg::tools {

/// The samples that a run is made of.
struct DataRun {
  samples::GptDataConfig config;
  samples::BatchSchedule batches;
  samples::DataloaderType dataloader_type = samples::DataloaderType::kSingle;
  int64_t micro_batch_size = 1;
  int64_t data_parallel_size = 1;
  int64_t train_iters = 0;         ///< Steps; 0 where samples of one epoch are asked for.
  std::vector<std::string> notes;  ///< Decisions that the command line does not show.
};

/// What the flags add up to.
/// environment_world_size: WORLD_SIZE as torchrun gives it, used where no flag says how many ranks
/// there are. kInvalidArgument for wrong usage, with the flag's name; else what a file gives that a
/// flag names.
Result<DataRun> resolve_data_flags(const DataFlags& data,
                                   const std::optional<std::string>& environment_world_size);

/// WORLD_SIZE of this process's environment.
std::optional<std::string> environment_world_size();

}  // namespace meg::tools
