// cuBLAS, cuBLASLt and cuDNN: each product or attention graph counts as one kernel, by the name of
// its call. Declared without their headers, which a CUDA toolkit need not have: a C function that
// takes fewer arguments than it is given ignores the rest.

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tests/pretended_device/recorder.h"

namespace {

using meg::pretended::Recorder;

/// What a handle of cuBLAS or cuDNN points to.
struct Handle {
  const void* stream = nullptr;
  int math_mode = 0;
  int pointer_mode = 0;
};

int make_handle(Handle** handle) {
  *handle = new Handle;
  return 0;
}

int run(const Handle* handle, const char* call) {
  Recorder::instance().add_kernel(handle->stream, call);
  return 0;
}

/// A descriptor that is written and never read.
int make_descriptor(void** descriptor) {
  *descriptor = new char;
  return 0;
}

int delete_descriptor(void* descriptor) {
  delete static_cast<char*>(descriptor);
  return 0;
}

}  // namespace

extern "C" {

// cuBLAS.

int cublasCreate_v2(Handle** handle) { return make_handle(handle); }

int cublasDestroy_v2(Handle* handle) {
  delete handle;
  return 0;
}

int cublasSetStream_v2(Handle* handle, const void* stream) {
  handle->stream = stream;
  return 0;
}

int cublasSetWorkspace_v2() { return 0; }

int cublasGetMathMode(const Handle* handle, int* mode) {
  *mode = handle->math_mode;
  return 0;
}

int cublasSetMathMode(Handle* handle, int mode) {
  handle->math_mode = mode;
  return 0;
}

int cublasGetPointerMode_v2(const Handle* handle, int* mode) {
  *mode = handle->pointer_mode;
  return 0;
}

int cublasSetPointerMode_v2(Handle* handle, int mode) {
  handle->pointer_mode = mode;
  return 0;
}

#define MEG_PRODUCT(function) \
  int function(const Handle* handle) { return run(handle, #function); }
MEG_PRODUCT(cublasSgemm_v2)
MEG_PRODUCT(cublasSgemmEx)
MEG_PRODUCT(cublasGemmEx)
MEG_PRODUCT(cublasSgemmStridedBatched)
MEG_PRODUCT(cublasGemmStridedBatchedEx)
MEG_PRODUCT(cublasSgemv_v2)
MEG_PRODUCT(cublasSdot_v2)
MEG_PRODUCT(cublasDotEx)
#undef MEG_PRODUCT

// cuBLASLt.

size_t cublasLtGetVersion() { return 130000; }

int cublasLtCreate(void** handle) { return make_descriptor(handle); }

int cublasLtDestroy(void* handle) { return delete_descriptor(handle); }

int cublasLtMatmulDescCreate(void** descriptor) { return make_descriptor(descriptor); }

int cublasLtMatmulDescDestroy(void* descriptor) { return delete_descriptor(descriptor); }

int cublasLtMatmulDescSetAttribute() { return 0; }

int cublasLtMatrixLayoutCreate(void** descriptor) { return make_descriptor(descriptor); }

int cublasLtMatrixLayoutDestroy(void* descriptor) { return delete_descriptor(descriptor); }

int cublasLtMatrixLayoutSetAttribute() { return 0; }

int cublasLtMatmulPreferenceCreate(void** descriptor) { return make_descriptor(descriptor); }

int cublasLtMatmulPreferenceDestroy(void* descriptor) { return delete_descriptor(descriptor); }

int cublasLtMatmulPreferenceSetAttribute() { return 0; }

/// One algorithm, of all zeros, that needs no workspace.
int cublasLtMatmulAlgoGetHeuristic(void*, void*, void*, void*, void*, void*, void*, int, void*,
                                   int* found) {
  *found = 1;
  return 0;
}

int cublasLtMatmul(void*, void*, const void*, const void*, void*, const void*, void*, const void*,
                   const void*, void*, void*, void*, const void*, void*, size_t,
                   const void* stream) {
  Recorder::instance().add_kernel(stream, "cublasLtMatmul");
  return 0;
}

// cuDNN, whose graphs are put together of descriptors.

int cudnnCreate(Handle** handle) { return make_handle(handle); }

int cudnnSetStream(Handle* handle, const void* stream) {
  handle->stream = stream;
  return 0;
}

int cudnnGetStream(const Handle* handle, const void** stream) {
  *stream = handle->stream;
  return 0;
}

int cudnnBackendCreateDescriptor(int, void** descriptor) { return make_descriptor(descriptor); }

int cudnnBackendDestroyDescriptor(void* descriptor) { return delete_descriptor(descriptor); }

int cudnnBackendSetAttribute() { return 0; }

int cudnnBackendFinalize() { return 0; }

/// One of everything, without notes, and zero where it is a number.
int cudnnBackendGetAttribute(void*, int, int type, int64_t, int64_t* count, void* values) {
  constexpr int kInt64 = 3;
  constexpr int kInt32 = 23;
  constexpr int kNumericalNote = 11;
  constexpr int kBehaviorNote = 19;
  if (count != nullptr) *count = type == kNumericalNote || type == kBehaviorNote ? 0 : 1;
  if (values != nullptr && type == kInt64) std::memset(values, 0, sizeof(int64_t));
  if (values != nullptr && type == kInt32) std::memset(values, 0, sizeof(int32_t));
  return 0;
}

int cudnnBackendExecute(const Handle* handle) { return run(handle, "cudnnBackendExecute"); }

}  // extern "C"
