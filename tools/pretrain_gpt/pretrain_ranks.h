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

/// Meets the ranks that torchrun, srun or mpirun started with this one. Errors: those of
/// ParallelState::connect.
Result<parallel::ParallelState> connect_ranks(const PretrainFlags& run);

/// Called by all ranks: kInvalidArgument with the first flag that one of them has otherwise than
/// the first rank; kUnsupported for what several ranks do not do yet.
Status check_ranks(const PretrainFlags& run, const parallel::ParallelState& ranks);

}  // namespace meg::tools
