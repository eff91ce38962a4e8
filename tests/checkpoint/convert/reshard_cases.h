#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "libmeg/checkpoint/convert/reshard.h"
#include "tests/checkpoint/torch_tree.h"
#include "tests/shared_data.h"
#include "tests/temp_folder.h"

namespace meg::test {

inline std::string oracle(const std::string& name) {
  return shared_path("oracle/checkpoints/" + name);
}

Result<checkpoint::MegatronCheckpoint> open_checkpoint(
    const std::string& path, const checkpoint::OpenCheckpointOptions& options = {});

/// Options for a target of these sizes.
checkpoint::ReshardOptions to_layout(int64_t tensor, int64_t pipeline, int64_t virtual_stages = 1);

/// Reshapes `load` into `save`; a test failure where that goes wrong. The notes of the plan.
std::vector<std::string> reshard(const std::string& load, const std::string& save,
                                 const checkpoint::ReshardOptions& options);

/// All rank files of a checkpoint by folder name: mp_rank_00, mp_rank_00_001.
using Ranks = std::map<std::string, std::unique_ptr<checkpoint::TorchFile>>;
Ranks open_ranks(const std::string& root);

/// (seed, offset) of a CUDA generator's state.
std::pair<int64_t, int64_t> cuda_state(TreeNode tensor);

}  // namespace meg::test
