#pragma once

#include <gtest/gtest.h>

#include <string>

#include "libmeg/checkpoint/training/read_training_state.h"
#include "libmeg/checkpoint/training/training_state.h"
#include "libmeg/model/parameter_table.h"

namespace meg::test {

/// A checkpoint that must open.
checkpoint::MegatronCheckpoint open_or_fail(const std::string& path);

/// Everything of one rank's file as the trainer would hold it, in memory of its own: parameters in
/// the dtypes of the checkpoint, masters and moments where it has them. rank: of a run with the
/// checkpoint's own layout.
checkpoint::TrainingState state_of_rank(const checkpoint::MegatronCheckpoint& checkpoint,
                                        const checkpoint::TrainingReadOptions& rank = {});

/// A tensor that owns a copy of these bytes.
checkpoint::TrainingTensor owned_tensor(DType dtype, std::vector<int64_t> shape,
                                        std::vector<std::byte> bytes);

/// A tiny model with bytes that differ everywhere; 16-bit weights (with masters) where dtype is
/// one.
checkpoint::TrainingState made_state(DType dtype = DType::kFloat32, int64_t iteration = 7);

}  // namespace meg::test
