#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libmeg/base/progress.h"
#include "libmeg/base/result.h"
#include "libmeg/checkpoint/dialects/mp_rank/megatron_checkpoint.h"
#include "libmeg/checkpoint/verify/tensor_difference.h"

namespace meg::checkpoint {

struct CheckpointDiffOptions {
  Tolerance tolerance = {};
  std::string name_pattern =
      {};  ///< RE2; compares only parameters whose name contains a match. Empty: all.
  bool compare_optimizer = true;
  /// Vocabulary rows from this one on are padding: a difference there is only a note.
  std::optional<int64_t> vocab_size = {};
  int workers = 1;
  ProgressCallback progress = {};  ///< Bytes of both checkpoints' tensors.
};

/// One kind of state of a parameter that differs.
struct TensorDifference {
  std::string name;            ///< "decoder.layers.3.mlp.linear_fc1.weight"
  std::string kind;            ///< "weight", "fp32_param", "exp_avg" ...
  std::vector<int64_t> index;  ///< Place of the first unequal element in the merged tensor.
  int64_t elements = 0;        ///< That were compared.
  ElementDifferences found;
};

/// A plain value that differs, as text.
struct FieldDifference {
  std::string field;  ///< "iteration", "args.hidden_size", "param_groups, with weight decay, step"
  std::string a, b;
};

struct CheckpointDiff {
  int64_t parameters = 0;  ///< Parameters that both have.
  int64_t tensors = 0;     ///< That were compared.
  int64_t elements = 0;    ///< Elements of these tensors.
  std::vector<TensorDifference> tensor_differences;
  std::vector<FieldDifference> field_differences;
  std::vector<std::string> only_in_a, only_in_b;  ///< "NAME KIND"
  /// Differences that do not make the checkpoints unequal, and what was not compared.
  std::vector<std::string> notes;

  bool equal() const {
    return tensor_differences.empty() && field_differences.empty() && only_in_a.empty() &&
           only_in_b.empty();
  }
};

/// Compares two checkpoints as models, whatever their layouts, names, padding and dtypes: every
/// parameter and kind of state merged over all ranks, the iteration, the model's shape in args,
/// learning rate, steps and scheduler. State that one side does not have at all (converted
/// checkpoints have no optimizer) is a note. Tensors are read in bounded memory.
/// kInvalidArgument for a pattern that RE2 does not accept; kCancelled.
Result<CheckpointDiff> diff_checkpoints(const MegatronCheckpoint& a, const MegatronCheckpoint& b,
                                        const CheckpointDiffOptions& options);

}  // namespace meg::checkpoint
