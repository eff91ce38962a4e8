// Stands for the CUDA kernels in a build without CUDA: every launch is refused.

#include "libmeg/kernels/attention/cached_attention.h"
#include "libmeg/kernels/attention/rotary_heads.h"
#include "libmeg/kernels/bias_gelu.h"
#include "libmeg/kernels/cuda_device.h"
#include "libmeg/kernels/dropout_add_norm.h"
#include "libmeg/kernels/embedding_backward.h"
#include "libmeg/kernels/optimizer/gradient_statistics.h"
#include "libmeg/kernels/optimizer/multi_tensor_adam.h"
#include "libmeg/kernels/product/epilogue_product.h"
#include "libmeg/kernels/softmax_cross_entropy.h"
#include "libmeg/kernels/stream_graph.h"
#include "libmeg/kernels/swiglu.h"

namespace meg::kernels {

const char* cuda_problem() { return "libmeg was built without CUDA kernels (no nvcc)"; }

// Nothing is ever recorded.
StreamGraph::~StreamGraph() { graph_ = nullptr; }

int StreamGraph::begin(CUstream_st*) { return kBuiltWithoutCuda; }

int StreamGraph::end(CUstream_st*) { return kBuiltWithoutCuda; }

int StreamGraph::launch(CUstream_st*) const { return kBuiltWithoutCuda; }

int bias_gelu_forward_cuda(const BiasGeluForward&, CUstream_st*, CudaAccess) {
  return kBuiltWithoutCuda;
}

int bias_gelu_backward_cuda(const BiasGeluBackward&, CUstream_st*, CudaAccess) {
  return kBuiltWithoutCuda;
}

int64_t cached_attention_scratch(const CachedAttention&, int64_t) { return 0; }

int cached_attention_cuda(const CachedAttention&, int64_t, float*, CUstream_st*, CudaAccess) {
  return kBuiltWithoutCuda;
}

int dropout_add_norm_forward_cuda(const DropoutAddNormForward&, CUstream_st*, CudaAccess) {
  return kBuiltWithoutCuda;
}

int64_t dropout_add_norm_scratch(int64_t, int64_t) { return 0; }

int dropout_add_norm_backward_cuda(const DropoutAddNormBackward&, float*, CUstream_st*,
                                   CudaAccess) {
  return kBuiltWithoutCuda;
}

int64_t embedding_backward_scratch(const EmbeddingBackward&) { return 0; }

int embedding_backward_cuda(const EmbeddingBackward&, int64_t*, CUstream_st*, CudaAccess) {
  return kBuiltWithoutCuda;
}

int gradient_statistics_cuda(const GradientTensor*, int64_t, float, GradientStatistics*, int64_t,
                             GradientStatistics*, CUstream_st*) {
  return kBuiltWithoutCuda;
}

int multi_tensor_adam_cuda(const AdamTensor*, int64_t, const AdamStep&, int64_t, CUstream_st*,
                           CudaAccess) {
  return kBuiltWithoutCuda;
}

int rotary_heads_cuda(const RotaryHeads&, CUstream_st*, CudaAccess) { return kBuiltWithoutCuda; }

int softmax_cross_entropy_forward_cuda(const SoftmaxCrossEntropyForward&, int*, CUstream_st*,
                                       CudaAccess) {
  return kBuiltWithoutCuda;
}

int softmax_cross_entropy_backward_cuda(const SoftmaxCrossEntropyBackward&, CUstream_st*,
                                        CudaAccess) {
  return kBuiltWithoutCuda;
}

int softmax_cross_entropy_forward_backward_cuda(const SoftmaxCrossEntropyForward&, const float*,
                                                void*, int*, CUstream_st*, CudaAccess) {
  return kBuiltWithoutCuda;
}

int swiglu_forward_cuda(const SwigluForward&, CUstream_st*, CudaAccess) {
  return kBuiltWithoutCuda;
}

int swiglu_backward_cuda(const SwigluBackward&, CUstream_st*, CudaAccess) {
  return kBuiltWithoutCuda;
}

class CublasLtProducts::State {};

std::unique_ptr<CublasLtProducts> CublasLtProducts::of_loaded_library() { return nullptr; }

CublasLtProducts::~CublasLtProducts() = default;

bool CublasLtProducts::run(const EpilogueProduct&, void*, CUstream_st*, bool) { return false; }

}  // namespace meg::kernels
