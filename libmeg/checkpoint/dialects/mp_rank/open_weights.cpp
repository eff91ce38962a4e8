#include "libmeg/checkpoint/dialects/mp_rank/open_weights.h"

namespace meg::checkpoint {

Result<MegatronCheckpoint> open_weights(const std::string& load,
                                        const megatron::FieldLookup& fallback,
                                        std::optional<int64_t> ckpt_step) {
  MEG_ASSIGN_OR_RETURN(const CheckpointFolder folder, find_checkpoint(load, ckpt_step));
  OpenCheckpointOptions options;
  options.fallback = fallback;
  options.ignore_optimizer = true;
  return MegatronCheckpoint::open(folder, options);
}

}  // namespace meg::checkpoint
