#include "libmeg/kernels/stream_graph.h"

#include <cuda_runtime_api.h>

namespace meg::kernels {

StreamGraph::~StreamGraph() {
  if (graph_ != nullptr) cudaGraphExecDestroy(graph_);
}

int StreamGraph::begin(CUstream_st* stream) {
  // Only calls of this thread are restricted: others may allocate meanwhile.
  return cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
}

int StreamGraph::end(CUstream_st* stream) {
  cudaGraph_t recorded = nullptr;
  int error = cudaStreamEndCapture(stream, &recorded);
  if (error == cudaSuccess) error = cudaGraphInstantiate(&graph_, recorded, 0);
  if (recorded != nullptr) cudaGraphDestroy(recorded);
  // The runtime would report the failure again at the next launch.
  if (error != cudaSuccess) (void)cudaGetLastError();
  return error;
}

int StreamGraph::launch(CUstream_st* stream) const { return cudaGraphLaunch(graph_, stream); }

}  // namespace meg::kernels
