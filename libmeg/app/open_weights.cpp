#include "libmeg/app/open_weights.h"

namespace meg::app {

Result<checkpoint::MegatronCheckpoint> open_weights(const std::string& load,
                                                    const megatron::FieldLookup& fallback,
                                                    std::optional<int64_t> ckpt_step) {
  MEG_ASSIGN_OR_RETURN(const checkpoint::CheckpointFolder folder,
                       checkpoint::find_checkpoint(load, ckpt_step));
  checkpoint::OpenCheckpointOptions options;
  options.fallback = fallback;
  options.ignore_optimizer = true;
  return checkpoint::MegatronCheckpoint::open(folder, options);
}

}  // namespace meg::app
