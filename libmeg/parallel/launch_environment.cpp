#include "libmeg/parallel/launch_environment.h"

#include <charconv>
#include <cstdlib>
#include <limits>
#include <string_view>

#include "libmeg/text/printable.h"

namespace meg::parallel {
namespace {

/// The variables by which one launcher tells a process who it is.
struct Launcher {
  const char* rank;
  const char* world_size;
  const char* local_rank;
  const char* local_size;
};

constexpr int kMost = std::numeric_limits<int>::max();

// The order matters: torchrun under srun sets RANK beside the SLURM_ variables of the job, and is
// then the one that started the process.
constexpr Launcher kLaunchers[] = {
    {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_TASKS_PER_NODE"},
};

Result<int> parse(const char* name, const std::string& text, int min, int max) {
  int number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end || number < min || number > max) {
    return make_error(StatusCode::kInvalidArgument,
                      "environment variable {}: expected an integer of {} to {}, found {}", name,
                      min, max, text::printable(text));
  }
  return number;
}

Result<int> require(const EnvironmentLookup& lookup, const char* name, int min, int max) {
  const std::optional<std::string> text = lookup(name);
  if (!text.has_value()) {
    return make_error(StatusCode::kInvalidArgument, "environment variable {} is not set", name);
  }
  return parse(name, *text, min, max);
}

Status read_meeting_point(const EnvironmentLookup& lookup, bool one_machine,
                          LaunchEnvironment& found) {
  if (const auto address = lookup("MASTER_ADDR"); address.has_value() && !address->empty()) {
    found.master_addr = *address;
  } else if (!one_machine) {
    return make_error(StatusCode::kInvalidArgument,
                      "environment variable MASTER_ADDR is not set: {} ranks on several machines "
                      "need the address of rank 0",
                      found.world_size);
  }
  if (const auto port = lookup("MASTER_PORT"); port.has_value()) {
    MEG_ASSIGN_OR_RETURN(const int number, parse("MASTER_PORT", *port, 0, 65535));
    found.master_port = static_cast<uint16_t>(number);
  }
  found.agent_store = lookup("TORCHELASTIC_USE_AGENT_STORE") == "True";
  if (const auto count = lookup("TORCHELASTIC_RESTART_COUNT"); count.has_value()) {
    MEG_ASSIGN_OR_RETURN(found.restart_count,
                         parse("TORCHELASTIC_RESTART_COUNT", *count, 0, kMost));
  }
  return Status();
}

}  // namespace

Result<LaunchEnvironment> read_launch_environment(const EnvironmentLookup& lookup) {
  LaunchEnvironment found;
  for (const Launcher& launcher : kLaunchers) {
    if (!lookup(launcher.rank).has_value()) continue;
    MEG_ASSIGN_OR_RETURN(found.world_size, require(lookup, launcher.world_size, 1, kMost));
    MEG_ASSIGN_OR_RETURN(found.rank, require(lookup, launcher.rank, 0, found.world_size - 1));
    if (lookup(launcher.local_rank).has_value()) {
      MEG_ASSIGN_OR_RETURN(found.local_rank, require(lookup, launcher.local_rank, 0, kMost));
    }
    // On one machine the default address finds rank 0. SLURM_TASKS_PER_NODE is a plain number only
    // on one machine; on several it is a list such as 2(x3), which differs from the world size as a
    // text.
    const bool one_machine = lookup(launcher.local_size) == std::to_string(found.world_size);
    MEG_RETURN_IF_ERROR(read_meeting_point(lookup, one_machine || found.world_size == 1, found));
    return found;
  }
  return found;
}

Result<LaunchEnvironment> read_launch_environment() {
  return read_launch_environment([](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    if (value != nullptr) return value;
    // megatron/training/arguments.py: `int(os.getenv('RANK', '0'))`.
    if (std::string_view(name) == "RANK" && std::getenv("WORLD_SIZE") != nullptr) return "0";
    return std::nullopt;
  });
}

}  // namespace meg::parallel
