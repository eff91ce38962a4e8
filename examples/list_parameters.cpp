// list_parameters CHECKPOINT: prints the parameters of a checkpoint of any parallel layout.

#include <cstdio>
#include <optional>
#include <string>

#include "libmeg/base/status.h"
#include "libmeg/checkpoint/dialects/mp_rank/checkpoint_folder.h"
#include "libmeg/checkpoint/dialects/mp_rank/megatron_checkpoint.h"

/// A line for each parameter of the whole model: its name and the sizes of its dimensions.
meg::Status list_parameters(const std::string& path) {
  MEG_ASSIGN_OR_RETURN(const auto folder, meg::checkpoint::find_checkpoint(path, std::nullopt));
  MEG_ASSIGN_OR_RETURN(const auto checkpoint, meg::checkpoint::MegatronCheckpoint::open(folder));
  for (const meg::checkpoint::LogicalParameter& parameter : checkpoint.parameters()) {
    std::printf("%s", parameter.name.c_str());
    for (const int64_t size : parameter.shape) std::printf(" %lld", static_cast<long long>(size));
    std::printf("\n");
  }
  return {};
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const meg::Status status = list_parameters(argv[1]);
  if (!status.ok()) {
    std::fprintf(stderr, "error: %s\n", status.message().c_str());
    return 1;
  }
  return 0;
}
