#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libmeg/checkpoint/container/pickle/pickle_graph.h"

namespace meg::checkpoint {

/// A numpy array inside a pickle.
struct NumpyArray {
  std::string dtype;  ///< numpy's name, without byte order where it has one: "uint32", "<U2".
  std::vector<int64_t> shape;
  int64_t elements = 0;
  int64_t bytes = 0;  ///< Size of its elements.
};

/// Reads a node that is an array as numpy pickles it: a call of
/// numpy(._)core.multiarray._reconstruct with the state (version, shape, dtype, order, content), or
/// as the trainer writes it: a call of numpy.ndarray(shape, dtype, content).
/// nullopt for any other node and for states that contradict themselves.
std::optional<NumpyArray> numpy_array(const PickleGraph& graph, PickleId id);

}  // namespace meg::checkpoint
