#pragma once

#include <cstddef>
#include <vector>

#include "libmeg/checkpoint/container/pickle/pickle_graph.h"

namespace meg::checkpoint {

/// Writes `root` as a pickle of protocol 2, opcode for opcode as CPython's pickler does under
/// torch.save: everything memoized, containers in batches of 1000, shared nodes written once and
/// fetched afterwards. A graph that read_pickle() read from such a file therefore gives the same
/// bytes again. Values that protocol 2 lacks (bytes, bytearray, sets) are written as Python writes
/// them there. kCorruption if the graph is nested deeper than kMaxDepth; kUnsupported for what
/// protocol 2 cannot express.
Result<std::vector<std::byte>> write_pickle(const PickleGraph& graph, PickleId root);

}  // namespace meg::checkpoint
