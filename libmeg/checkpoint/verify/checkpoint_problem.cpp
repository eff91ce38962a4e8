#include "libmeg/checkpoint/verify/checkpoint_problem.h"

#include <fmt/format.h>

#include "libmeg/checkpoint/container/torch_file/tensor_view.h"

namespace meg::checkpoint {

std::string_view checkpoint_check_name(CheckpointCheck check) {
  switch (check) {
    case CheckpointCheck::kTracker:
      return "tracker";
    case CheckpointCheck::kRankFiles:
      return "rank_files";
    case CheckpointCheck::kFile:
      return "file";
    case CheckpointCheck::kCrc:
      return "crc";
    case CheckpointCheck::kIteration:
      return "iteration";
    case CheckpointCheck::kCheckpointVersion:
      return "checkpoint_version";
    case CheckpointCheck::kArgs:
      return "args";
    case CheckpointCheck::kSizes:
      return "sizes";
    case CheckpointCheck::kNames:
      return "names";
    case CheckpointCheck::kShapes:
      return "shapes";
    case CheckpointCheck::kReplicas:
      return "replicas";
    case CheckpointCheck::kTiedEmbeddings:
      return "tied_embeddings";
    case CheckpointCheck::kNotFinite:
      return "not_finite";
    case CheckpointCheck::kNegative:
      return "negative";
    case CheckpointCheck::kOptimizer:
      return "optimizer";
    case CheckpointCheck::kMasters:
      return "masters";
    case CheckpointCheck::kDistributedOptimizer:
      return "distributed_optimizer";
    case CheckpointCheck::kRandomStates:
      return "random_states";
    case CheckpointCheck::kLossScaler:
      return "loss_scaler";
    case CheckpointCheck::kStructure:
      return "structure";
  }
  return "unknown";
}

std::string CheckpointProblem::message() const {
  std::string text = fmt::format("{}: {}: ", file, checkpoint_check_name(check));
  if (!tensor.empty()) {
    text += fmt::format("{}{}: ", tensor, index.empty() ? "" : shape_text(index));
  }
  text += expected.empty() ? found : fmt::format("expected {}, found {}", expected, found);
  if (count > 1) text += fmt::format(" (and {} more)", count - 1);
  if (!likely_cause.empty()) text += fmt::format("; likely cause: {}", likely_cause);
  return text;
}

CheckpointProblem problem_of(CheckpointCheck check, const std::string& file, const Status& error) {
  std::string_view text = error.message();
  const std::string prefix = file + ": ";
  if (text.starts_with(prefix)) text.remove_prefix(prefix.size());
  return {.check = check, .file = file, .found = std::string(text)};
}

std::vector<int64_t> index_of(int64_t place, const std::vector<int64_t>& shape) {
  std::vector<int64_t> index(shape.size());
  for (size_t i = shape.size(); i-- > 0;) {
    index[i] = place % shape[i];
    place /= shape[i];
  }
  return index;
}

}  // namespace meg::checkpoint
