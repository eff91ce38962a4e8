#include "tools/common/open_weights.h"

namespace meg::tools {

Result<MegatronCheckpoint> open_weights(const std::string& load, const FieldLookup& fallback,
                                        std::optional<int64_t> ckpt_step) {
  MEG_ASSIGN_OR_RETURN(const CheckpointFolder folder, find_checkpoint(load, ckpt_step));
  OpenCheckpointOptions options;
  options.fallback = fallback;
  options.ignore_optimizer = true;
  return MegatronCheckpoint::open(folder, options);
}

}  // namespace meg::tools
