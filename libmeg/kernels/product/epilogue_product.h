#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "libmeg/kernels/float_type.h"

struct CUstream_st;

namespace meg::kernels {

/// The further computations of a matrix product while its results are still in registers. All
/// matrices are dense and row-major; sums are fp32, rounded once to the arrays' type; GELU has the
/// tanh form.
enum class Epilogue : uint8_t {
  /// auxiliary = left [rows, inner] x right [columns, inner], transposed, + bias [columns];
  /// output [rows, columns] = gelu(auxiliary).
  kGeluAuxBias,
  /// The same without auxiliary.
  kGeluBias,
  /// output [rows, columns] = (left [rows, inner] x right [inner, columns]) * gelu'(auxiliary).
  /// Leaves out the bias's gradient: with it, cuBLASLt multiplies in a kernel of its own, which
  /// takes three times as long as the product (docs/performance.md, "On an H200: log").
  kGeluGradient,
  /// output [rows, columns] = left [inner, rows], transposed, x right [inner, columns]; bias [rows]
  /// becomes the sum of left's rows.
  kBiasGradient,
  /// The same without the sums.
  kWeightGradient,
};

struct EpilogueProduct {
  Epilogue epilogue = Epilogue::kGeluAuxBias;
  FloatType type = FloatType::kBFloat16;  ///< of all arrays, but see `adds`
  /// Adds the product to the output, which must be a weight's gradient; output and bias are then
  /// fp32 arrays.
  bool adds = false;
  const void* left = nullptr;
  const void* right = nullptr;
  void* output = nullptr;
  void* auxiliary = nullptr;  ///< [rows, columns]; of kGeluAuxBias and kGeluGradient
  void* bias = nullptr;       ///< unused by kGeluGradient and kWeightGradient
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t inner = 0;
};

struct CublasLtFunctions;

/// Computes such products on a GPU with cuBLASLt. Algorithms are chosen once for each shape.
/// Thread-safe.
class CublasLtProducts {
 public:
  /// Bytes of device memory that an algorithm may use beside the arrays.
  static constexpr size_t kWorkspaceSize = size_t{32} << 20;

  /// Uses the library that this process has loaded, as LibTorch's CUDA half does. nullptr if there
  /// is none, or libmeg was built without CUDA.
  static std::unique_ptr<CublasLtProducts> of_loaded_library();

  /// functions: those of a library.
  explicit CublasLtProducts(const CublasLtFunctions& functions);
  ~CublasLtProducts();
  CublasLtProducts(const CublasLtProducts&) = delete;
  CublasLtProducts& operator=(const CublasLtProducts&) = delete;

  /// Queues the product on `stream` (a cudaStream_t) of the current device. workspace: device
  /// memory of kWorkspaceSize bytes that nothing else may use until the product has run.
  /// timed: the first product of a shape times several algorithms, waiting for each, and the
  /// fastest is kept. Otherwise, and for products that add, which cannot run twice, the library's
  /// first choice is used, which is the same in every process. False if the library has no
  /// algorithm for the shape or fails; then nothing is queued.
  bool run(const EpilogueProduct& product, void* workspace, CUstream_st* stream, bool timed);

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace meg::kernels
