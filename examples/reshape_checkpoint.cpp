// reshape_checkpoint LOAD_DIR SAVE_DIR: brings a checkpoint to one rank, optimizer included.

#include <cstdio>
#include <optional>
#include <string>

#include "libmeg/checkpoint/convert/reshard.h"
#include "libmeg/checkpoint/dialects/mp_rank/checkpoint_folder.h"
#include "libmeg/checkpoint/dialects/mp_rank/megatron_checkpoint.h"

/// The checkpoint in load_dir as one of tensor- and pipeline-parallel size 1 in save_dir.
meg::Status reshape(const std::string& load_dir, const std::string& save_dir) {
  MEG_ASSIGN_OR_RETURN(const auto folder, meg::checkpoint::find_checkpoint(load_dir, std::nullopt));
  MEG_ASSIGN_OR_RETURN(const auto checkpoint, meg::checkpoint::MegatronCheckpoint::open(folder));
  MEG_RETURN_IF_ERROR(meg::checkpoint::check_save_dir(checkpoint, save_dir));
  const meg::checkpoint::ReshardOptions options{.tensor_model_parallel_size = 1,
                                                .pipeline_model_parallel_size = 1};
  MEG_ASSIGN_OR_RETURN(const auto plan, meg::checkpoint::plan_reshard(checkpoint, options));
  for (const std::string& note : plan.notes) std::printf("note: %s\n", note.c_str());
  return meg::checkpoint::save_reshard(checkpoint, plan, save_dir,
                                       meg::checkpoint::TransferOptions());
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const meg::Status status = reshape(argv[1], argv[2]);
  if (!status.ok()) {
    std::fprintf(stderr, "error: %s\n", status.message().c_str());
    return 1;
  }
  return 0;
}
