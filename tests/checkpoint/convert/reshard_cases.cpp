#include "tests/checkpoint/convert/reshard_cases.h"

#include "libmeg/base/bytes.h"

namespace meg::test {

Result<checkpoint::MegatronCheckpoint> open_checkpoint(
    const std::string& path, const checkpoint::OpenCheckpointOptions& options) {
  MEG_ASSIGN_OR_RETURN(const checkpoint::CheckpointFolder folder,
                       checkpoint::find_checkpoint(path));
  return checkpoint::MegatronCheckpoint::open(folder, options);
}

checkpoint::ReshardOptions to_layout(int64_t tensor, int64_t pipeline, int64_t virtual_stages) {
  checkpoint::ReshardOptions options;
  options.tensor_model_parallel_size = tensor;
  options.pipeline_model_parallel_size = pipeline;
  options.virtual_pipeline_model_parallel_size = virtual_stages;
  return options;
}

std::vector<std::string> reshard(const std::string& load, const std::string& save,
                                 const checkpoint::ReshardOptions& options) {
  checkpoint::OpenCheckpointOptions open;
  open.ignore_optimizer = !options.keep_optimizer;
  const auto checkpoint = open_checkpoint(load, open);
  EXPECT_TRUE(checkpoint.has_value()) << checkpoint.error().message();
  if (!checkpoint.has_value()) return {};
  const Result<checkpoint::ReshardPlan> plan = checkpoint::plan_reshard(*checkpoint, options);
  EXPECT_TRUE(plan.has_value()) << plan.error().message();
  if (!plan.has_value()) return {};
  const Status saved = checkpoint::save_reshard(*checkpoint, *plan, save, {});
  EXPECT_TRUE(saved.ok()) << saved.message();
  return plan->notes;
}

Ranks open_ranks(const std::string& root) {
  Ranks ranks;
  const Result<checkpoint::CheckpointFolder> folder = checkpoint::find_checkpoint(root);
  EXPECT_TRUE(folder.has_value()) << folder.error().message();
  if (!folder.has_value()) return ranks;
  for (const checkpoint::RankFolder& rank : folder->ranks) {
    Result<checkpoint::TorchFile> file = checkpoint::TorchFile::open(rank.file);
    EXPECT_TRUE(file.has_value()) << file.error().message();
    if (file.has_value())
      ranks[rank.name] = std::make_unique<checkpoint::TorchFile>(*std::move(file));
  }
  return ranks;
}

std::pair<int64_t, int64_t> cuda_state(TreeNode tensor) {
  const std::vector<std::byte> bytes = tensor.bytes();
  if (bytes.size() < 16) return {-1, -1};
  const std::byte* end = bytes.data() + bytes.size();
  return {load_le<int64_t>(end - 16), load_le<int64_t>(end - 8)};
}

}  // namespace meg::test
