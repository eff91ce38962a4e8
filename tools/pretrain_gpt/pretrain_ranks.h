#pragma once

#include "libmeg/base/result.h"
#include "libmeg/megatron/field_reader.h"
#include "libmeg/parallel/parallel_state.h"
#include "tools/pretrain_gpt/pretrain_gpt_flags.h"

namespace meg::tools {

/// What the command line says of the ranks, beside their sizes.
struct RankFlags {
  bool use_tp_pp_dp_mapping = false;
  bool data_parallel_random_init = false;
  int64_t distributed_timeout_minutes = 10;

  void take_fields(megatron::FieldReader& args);
};

/// Meets the ranks that torchrun, srun or mpirun started with this one, which must have the same
/// command line. Errors: those of ParallelState::connect; kInvalidArgument with the first flag that
/// differs between ranks.
Result<parallel::ParallelState> connect_ranks(const PretrainFlags& run);

}  // namespace meg::tools
