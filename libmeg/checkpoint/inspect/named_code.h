#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libmeg/checkpoint/container/pickle/pickle_graph.h"

namespace meg::checkpoint {

/// A class or function that a pickle names; it was neither looked up nor called.
struct NamedCode {
  std::string name;        ///< "collections.OrderedDict", "posix.system"
  int64_t calls = 0;       ///< Calls of it that loading the pickle with Python would make.
  bool is_usual = false;   ///< One of those that torch, numpy and Megatron write.
  std::string first_call;  ///< Text of the first call, unless usual.
};

/// All code that a file's pickles name: first what is not usual, then the rest, each sorted by
/// name. Includes values that the pickle discarded.
std::vector<NamedCode> named_code(const PickleGraph& graph);

}  // namespace meg::checkpoint
