#include "tools/common/open_weights.h"

namespace meg::tools {

Result<MegatronCheckpoint> open_weights(const std::string& load, const FieldLookup& fallback) {
  MEG_ASSIGN_OR_RETURN(const CheckpointFolder folder, find_checkpoint(load));
  OpenCheckpointOptions options;
  options.fallback = fallback;
  options.ignore_optimizer = true;
  return MegatronCheckpoint::open(folder, options);
}

}  // namespace meg::tools
