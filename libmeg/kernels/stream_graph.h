#pragma once

#include <utility>

struct CUgraphExec_st;
struct CUstream_st;

namespace meg::kernels {

/// A CUDA graph: the work queued on a stream between two calls, to be queued again with one call.
/// Functions return the CUDA runtime's error code, 0 for success, and kBuiltWithoutCuda in a build
/// without CUDA.
class StreamGraph {
 public:
  StreamGraph() = default;

  StreamGraph(StreamGraph&& other) noexcept : graph_(std::exchange(other.graph_, nullptr)) {}

  ~StreamGraph();

  /// Records what this thread queues on `stream` from now on, instead of running it. The default
  /// stream cannot be recorded.
  static int begin(CUstream_st* stream);

  /// Ends the recording that begin() started, even if it fails. Errors during recording are
  /// returned here.
  int end(CUstream_st* stream);

  /// Queues the recorded work on any stream of its device. All memory that it uses must still
  /// exist.
  int launch(CUstream_st* stream) const;

 private:
  CUgraphExec_st* graph_ = nullptr;
};

}  // namespace meg::kernels
