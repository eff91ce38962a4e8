#pragma once

#include "libmeg/checkpoint/convert/import_huggingface.h"
#include "libmeg/checkpoint/training/training_args.h"

namespace meg::checkpoint {

/// Megatron's args for an imported model: what loaders and --use-checkpoint-args read. model: as it
/// is written, its vocabulary padded. dtype: of the weights that are written.
TrainingArgs imported_args(const HuggingFaceCheckpoint& checkpoint, const model::GptConfig& model,
                           const ImportOptions& options, DType dtype);

}  // namespace meg::checkpoint
