#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "libmeg/base/result.h"

namespace meg::parallel {

/// This process's place among those that a launcher started, and where they meet.
struct LaunchEnvironment {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;  ///< Number among the ranks of this machine.
  std::string master_addr = "127.0.0.1";
  uint16_t master_port = 29500;
  /// Whether torchrun's agent hosts the store, so that every rank is a client. Otherwise rank 0
  /// hosts it.
  bool agent_store = false;
  /// Number of times that torchrun has restarted this run after ranks failed.
  int restart_count = 0;
};

/// Looks up an environment variable; nullopt if it is not set.
using EnvironmentLookup = std::function<std::optional<std::string>(const char* name)>;

/// Reads the variables of torchrun, srun or mpirun (Open MPI); without any of them there is a
/// single rank. Ranks that srun or mpirun started on several machines need MASTER_ADDR. Errors:
/// kInvalidArgument if a variable is missing, not a number or out of range.
Result<LaunchEnvironment> read_launch_environment(const EnvironmentLookup& lookup);

/// The same from this process's environment. As in Megatron's programs, a missing RANK is 0 if
/// there is a WORLD_SIZE.
Result<LaunchEnvironment> read_launch_environment();

}  // namespace meg::parallel
