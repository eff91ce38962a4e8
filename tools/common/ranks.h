#pragma once

#include <cstdint>
#include <string>

#include "libmeg/base/result.h"
#include "libmeg/megatron/argument_values.h"
#include "libmeg/megatron/field_reader.h"
#include "libmeg/parallel/parallel_state.h"

namespace meg::tools {

/// What a command line says of the ranks. Sizes as they were typed.
struct RankFlags {
  int64_t tensor_model_parallel_size = 1;
  int64_t context_parallel_size = 1;
  int64_t pipeline_model_parallel_size = 1;
  bool use_tp_pp_dp_mapping = false;
  int64_t distributed_timeout_minutes = 10;

  void take_fields(megatron::FieldReader& args);
};

/// What it says of the ranks that share experts, where a program has such ranks.
struct ExpertRankFlags {
  int64_t expert_model_parallel_size = 1;
  int64_t expert_tensor_parallel_size = 0;  ///< 0: the tensor-parallel size.

  void take_fields(megatron::FieldReader& args);
};

/// Whether this process is the first rank, which reports what all have in common, or no rank at
/// all.
bool is_first_rank();

/// Meets the ranks that torchrun, srun or mpirun started with this one. device: --device; a rank on
/// a GPU that loses another ends its process. Errors: those of libtorch::device_of and
/// ParallelState::connect.
Result<parallel::ParallelState> connect_ranks(const megatron::ArgumentValues& args,
                                              const std::string& device,
                                              const ExpertRankFlags& experts = {});

/// Says on the first rank where --distributed-backend asks for what the ranks do not use.
void note_backend(const megatron::ArgumentValues& args, const parallel::ParallelState& ranks);

/// Like fail(). Of several ranks the first one that fails says why; the others' errors follow from
/// its end. Of several on GPUs it does not return.
int fail_once(const Status& status, const parallel::ParallelState& ranks);

}  // namespace meg::tools
