#pragma once

#include <utility>

struct CUgraphExec_st;
struct CUstream_st;

namespace meg::kernels {

/// What a stream of a GPU was given between two calls, to be queued again by one: a CUDA graph.
/// Functions return the CUDA runtime's error code, 0 for success, and kBuiltWithoutCuda in a build
/// without CUDA.
class StreamGraph {
 public:
  StreamGraph() = default;

  StreamGraph(StreamGraph&& other) noexcept : graph_(std::exchange(other.graph_, nullptr)) {}

  ~StreamGraph();

  /// From here on what this thread queues on `stream` is recorded and not run. Not the default
  /// stream, which cannot be recorded.
  static int begin(CUstream_st* stream);

  /// Ends what begin() began, also where it fails. What failed while it was recorded is an error
  /// here.
  int end(CUstream_st* stream);

  /// Queues what was recorded, on any stream of its device. All memory that it uses must be there.
  int launch(CUstream_st* stream) const;

 private:
  CUgraphExec_st* graph_ = nullptr;
};

}  // namespace meg::kernels
