#include "libmeg/nn/internal/device_graph.h"

#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include <atomic>
#include <cstdlib>
#include <exception>
#include <utility>

#include "libmeg/kernels/stream_graph.h"
#include "libmeg/nn/operators/kernel_call.h"

namespace meg::nn {
namespace {

/// LibTorch's CUDA half is loaded at run time, so only virtual functions of it are called.
c10::cuda::CUDACachingAllocator::CUDAAllocator& cuda_allocator() {
  return *static_cast<c10::cuda::CUDACachingAllocator::CUDAAllocator*>(
      c10::GetAllocator(at::kCUDA));
}

c10::MempoolId_t next_pool() {
  // LibTorch counts its own from 1.
  static std::atomic<c10::CaptureId_t> next{c10::CaptureId_t{1} << 40};
  return {0, next++};
}

/// What is queued on `later` from here on runs after what `earlier` has.
void order(const c10::Stream& earlier, const c10::Stream& later) {
  c10::Event event(earlier.device_type());
  event.record(earlier);
  event.block(later);
}

}  // namespace

class DeviceGraph::Memory {
 public:
  explicit Memory(at::Device device)
      : device_(device),
        stream_(c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device)) {}

  ~Memory() {
    if (has_begun_) cuda_allocator().releasePool(device_.index(), pool_);
  }

  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  at::Device device() const { return device_; }

  const c10::Stream& stream() const { return stream_; }

  CUstream_st* cuda_stream() const { return static_cast<CUstream_st*>(stream_.native_handle()); }

  /// Until end() tensors that are created on the stream lie here.
  void begin() {
    CUstream_st* const own = cuda_stream();
    cuda_allocator().beginAllocateToPool(device_.index(), pool_,
                                         [own](cudaStream_t stream) { return stream == own; });
    // The allocator counts each beginning as a use of its own; one is kept.
    if (std::exchange(has_begun_, true)) cuda_allocator().releasePool(device_.index(), pool_);
  }

  void end() { cuda_allocator().endAllocateToPool(device_.index(), pool_); }

 private:
  at::Device device_;
  c10::Stream stream_;
  c10::MempoolId_t pool_ = next_pool();
  bool has_begun_ = false;
};

namespace {

class RecordedGraph : public DeviceGraph {
 public:
  RecordedGraph(std::shared_ptr<Memory> memory, kernels::StreamGraph graph)
      : memory_(std::move(memory)), graph_(std::move(graph)) {}

  void launch() const override {
    launch_kernel("graph", memory_->device(),
                  [&](CUstream_st* stream) { return graph_.launch(stream); });
  }

 private:
  std::shared_ptr<Memory> memory_;
  kernels::StreamGraph graph_;
};

}  // namespace

std::shared_ptr<DeviceGraph::Memory> DeviceGraph::create_memory(at::Device device) {
  // With this variable, LibTorch gives memory back as soon as a tensor is gone, which a graph still
  // uses.
  if (std::getenv("PYTORCH_NO_CUDA_MEMORY_CACHING") != nullptr) return nullptr;
  // LibTorch's allocator wants the number that "cuda" stands for.
  const c10::impl::VirtualGuardImpl guard(device.type());
  return std::make_shared<Memory>(device.has_index() ? device : guard.getDevice());
}

std::unique_ptr<DeviceGraph> DeviceGraph::record(std::shared_ptr<Memory> memory,
                                                 const std::function<void()>& body) {
  const c10::DeviceGuard guard(memory->device());
  const c10::Stream before =
      c10::impl::VirtualGuardImpl(memory->device().type()).getStream(memory->device());
  order(before, memory->stream());
  kernels::StreamGraph graph;
  bool recorded = false;
  {
    const c10::StreamGuard on_own(memory->stream());
    body();
    memory->begin();
    if (kernels::StreamGraph::begin(memory->cuda_stream()) == 0) {
      recorded = true;
      try {
        body();
      } catch (const std::exception&) {
        recorded = false;  // What cannot be recorded fails where it is asked for.
      }
      recorded = graph.end(memory->cuda_stream()) == 0 && recorded;
    }
    memory->end();
  }
  order(memory->stream(), before);
  if (!recorded) return nullptr;
  return std::make_unique<RecordedGraph>(std::move(memory), std::move(graph));
}

}  // namespace meg::nn
