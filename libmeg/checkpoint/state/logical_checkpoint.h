#pragma once

#include <string>
#include <vector>

#include "libmeg/checkpoint/state/logical_parameter.h"

namespace meg::checkpoint {

/// A checkpoint seen as one whole model, in whatever dialect it is stored: what readers of dialects
/// fill and loading reads.
struct LogicalCheckpoint {
  std::string path;  ///< Its folder or file, for messages.
  /// Embedding, layers ascending, final norm, output layer. A tied copy of the embedding is not
  /// among them.
  std::vector<LogicalParameter> parameters;
  /// Its optimizer was saved before the first step: moments are zero and not stored.
  bool is_before_first_step = false;
};

}  // namespace meg::checkpoint
