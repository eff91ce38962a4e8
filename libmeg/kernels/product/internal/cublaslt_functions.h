#pragma once

#include <cublasLt.h>

#include <optional>

namespace meg::kernels {

/// The functions of cuBLASLt that libmeg calls. They are looked up at run time, so that programs
/// that compute on a CPU need not load a library of half a gigabyte.
struct CublasLtFunctions {
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtDestroy) destroy = nullptr;
  decltype(&cublasLtMatmulDescCreate) desc_create = nullptr;
  decltype(&cublasLtMatmulDescDestroy) desc_destroy = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) layout_create = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) get_heuristic = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;

  /// The functions of the library that this process has loaded, as LibTorch's CUDA half does;
  /// nullopt if one is missing.
  static std::optional<CublasLtFunctions> loaded();
};

}  // namespace meg::kernels
