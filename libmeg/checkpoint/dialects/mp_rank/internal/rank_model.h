#pragma once

#include <string>
#include <vector>

#include "libmeg/checkpoint/container/torch_file/torch_file.h"
#include "libmeg/model/parameter_table.h"

namespace meg::checkpoint {

/// One entry of a chunk's model dict: a parameter, or extra state.
struct RankEntry {
  std::string flat_name;  ///< Nested keys joined by dots.
  model::ParameterMatch match;
  PickleId node = 0;
  const TensorView* tensor = nullptr;  ///< nullptr for extra state that is not a tensor.
};

/// The `model` (or `model0`, `model1`, ...) dicts of one rank's file, flat and in their order.
struct RankModel {
  std::vector<std::vector<RankEntry>> chunks;
  bool is_chunked = false;  ///< The keys were model0, model1, ...
  bool is_hybrid = false;   ///< By args, names are a hybrid model's; matches have GPT's layers.
};

/// kNotFound where the file holds no model; kUnsupported for models of another kind (BERT, T5), by
/// their names, and for names that no rule of the table knows;
/// kCorruption for parameters that are no tensors. Messages start with the file's path.
/// unknown: collects names that no rule knows and leaves these parameters out, instead of failing.
Result<RankModel> read_rank_model(const TorchFile& file, const model::ParameterTable& table,
                                  std::vector<std::string>* unknown = nullptr);

}  // namespace meg::checkpoint
