#pragma once

#include <string_view>
#include <vector>

#include "libmeg/checkpoint/container/torch_file/torch_file.h"

namespace meg::checkpoint {

/// Whether a top-level key of a rank's file holds (a chunk of) the model: `model`; `model0`,
/// `model1`, ... with virtual stages; `module` in DeepSpeed's files.
bool is_model_key(std::string_view key);

/// The model's dicts, in the order of the chunks; empty if the file has none. A single `model` or
/// `module` takes precedence over numbered ones.
struct ModelDicts {
  std::vector<PickleId> dicts;
  bool is_chunked = false;  ///< The keys were model0, model1, ...
};

ModelDicts find_model_dicts(const TorchFile& file);

}  // namespace meg::checkpoint
