#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "libmeg/checkpoint/container/torch_file/torch_file_writer.h"
#include "libmeg/checkpoint/convert/save_torch_dist.h"
#include "libmeg/checkpoint/dialects/mp_rank/megatron_checkpoint.h"

namespace meg::checkpoint {

/// Copies a value out of a torch file with the elements of its tensors, which are few. target: gets
/// the storages that are named under `id` as literals.
Result<PickleId> copy_value(const TorchFile& file, PickleId id, TorchFileContent* target);

/// common.pt of a checkpoint: what its first rank has beside the model, the optimizer's tensors and
/// what each rank has for itself. family: of the names that are written.
Result<TorchFileContent> common_state(const MegatronCheckpoint& checkpoint,
                                      model::NameFamily family,
                                      const SaveTorchDistOptions& options);

}  // namespace meg::checkpoint
