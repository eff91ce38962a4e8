#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "libmeg/checkpoint/container/torch_file/torch_file_writer.h"
#include "libmeg/checkpoint/convert/save_torch_dist.h"
#include "libmeg/checkpoint/dialects/mp_rank/megatron_checkpoint.h"

namespace meg::checkpoint {

/// Copies a value from a torch file, with the elements of its tensors, which should be few. target:
/// receives the storages named under `id` as literals.
Result<PickleId> copy_value(const TorchFile& file, PickleId id, TorchFileContent* target);

/// The content of common.pt: the first rank's values except the model, the optimizer's tensors and
/// what each rank has of its own. family: that of the names written.
Result<TorchFileContent> common_state(const MegatronCheckpoint& checkpoint,
                                      model::NameFamily family,
                                      const SaveTorchDistOptions& options);

}  // namespace meg::checkpoint
