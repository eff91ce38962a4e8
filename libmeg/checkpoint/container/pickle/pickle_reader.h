#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "libmeg/checkpoint/container/pickle/pickle_graph.h"
#include "libmeg/checkpoint/container/pickle/pickle_opcode.h"

namespace meg::checkpoint {

/// One pickle out of a stream of bytes.
struct PickleStream {
  PickleId root = 0;
  size_t size = 0;  ///< Bytes up to and including its STOP.
};

/// Reads one pickle of protocol 0 to 5 at the start of `bytes` into `graph` and executes nothing:
/// classes and functions remain names, calls remain nodes. Several pickles may be read into one
/// graph.
///
/// Memory is bounded by the bytes given, never by what they claim. `name` starts every error, with
/// the byte where it happened. kCorruption for damage; kUnsupported for extension codes,
/// out-of-band buffers and text persistent ids; kResourceExhausted past kMaxDepth or the limits on
/// bytes and values. Mirrors CPython's Lib/pickle.py and pickletools.
Result<PickleStream> read_pickle(std::span<const std::byte> bytes, const std::string& name,
                                 PickleGraph* graph, size_t max_values = kMaxPickleNodes);

}  // namespace meg::checkpoint
