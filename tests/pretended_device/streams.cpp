// Streams and events: all work is done when its call returns, so waiting takes no time; it is
// counted.

#include <cuda_runtime_api.h>

#include "tests/pretended_device/recorder.h"

namespace {

using meg::pretended::Recorder;

/// What a cudaEvent_t points to.
struct Event {
  int64_t last = 0;  ///< The number of the last work before it in its stream.
  cudaStream_t stream = nullptr;
  size_t sends = 0;  ///< Messages before it in its stream.
};

Event* event_of(cudaEvent_t event) { return reinterpret_cast<Event*>(event); }

}  // namespace

extern "C" {

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int, int) {
  *stream = reinterpret_cast<cudaStream_t>(new char);
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete reinterpret_cast<char*>(stream);
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  Recorder::instance().wait_for(Recorder::instance().last_of(stream));
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  Recorder::instance().wait_for(Recorder::instance().last());
  return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t) { return cudaSuccess; }

cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t event, unsigned int) {
  meg::pretended::wait_for_sends(event_of(event)->stream, event_of(event)->sends);
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  // Refuse it as a real device does: work of the default stream waits for that of others.
  if (stream == nullptr) return cudaErrorStreamCaptureUnsupported;
  Recorder::instance().begin_recording(stream);
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  Recorder::instance().end_recording(stream);
  *graph = reinterpret_cast<cudaGraph_t>(new char);
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete reinterpret_cast<char*>(graph);
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t, unsigned long long) {
  *executable = reinterpret_cast<cudaGraphExec_t>(new char);
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete reinterpret_cast<char*>(executable);
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t stream) {
  Recorder::instance().add_kernel(stream, "cudaGraphLaunch");
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  *status = Recorder::instance().is_recording(stream) ? cudaStreamCaptureStatusActive
                                                      : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long*, cudaGraph_t*, const cudaGraphNode_t**,
                                     const cudaGraphEdgeData**, size_t*) {
  return cudaStreamIsCapturing(stream, status);
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode*) { return cudaSuccess; }

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int) {
  *event = reinterpret_cast<cudaEvent_t>(new Event);
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event_of(event);
  return cudaSuccess;
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int) {
  event_of(event)->last = Recorder::instance().last_of(stream);
  event_of(event)->stream = stream;
  event_of(event)->sends = meg::pretended::sends_of(stream);
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, 0);
}

cudaError_t cudaEventQuery(cudaEvent_t) { return cudaSuccess; }

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  Recorder::instance().wait_for(event_of(event)->last);
  return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t, cudaEvent_t) {
  *milliseconds = 0;
  return cudaSuccess;
}

}  // extern "C"
