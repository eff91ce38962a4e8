#pragma once

#include <string>
#include <vector>

#include "libmeg/checkpoint/state/logical_parameter.h"

namespace meg::checkpoint {

/// A checkpoint as one whole model, independent of the dialect in which it is stored: filled by the
/// readers of dialects and read when loading.
struct LogicalCheckpoint {
  std::string path;  ///< Path of its folder or file, for messages.
  /// Embedding, layers ascending, final norm, output layer. A tied copy of the embedding is not
  /// among them.
  std::vector<LogicalParameter> parameters;
  /// Its optimizer was saved before the first step: moments are zero and not stored.
  bool is_before_first_step = false;
};

}  // namespace meg::checkpoint
