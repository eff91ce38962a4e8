// What CublasLtProducts asks of cuBLASLt, computed by the rules of the library's documentation:
// column-major matrices, epilogues over the columns of D. So a wrong transposition, a wrong leading
// dimension or a wrong epilogue is found without a GPU.
#include "libmeg/kernels/product/epilogue_product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "libmeg/kernels/product/internal/cublaslt_functions.h"

namespace meg::kernels {
namespace {

struct MatrixLayout {
  uint64_t rows = 0, columns = 0;
  int64_t leading = 0;
  cudaDataType_t type = CUDA_R_32F;
};

/// The attributes that a descriptor was given, each as it came.
struct MatmulDesc {
  std::map<int, std::vector<char>> attributes;

  template <class T>
  T get(cublasLtMatmulDescAttributes_t attribute, T missing) const {
    const auto found = attributes.find(attribute);
    if (found == attributes.end()) return missing;
    EXPECT_EQ(found->second.size(), sizeof(T)) << attribute;
    T value;
    std::memcpy(&value, found->second.data(), sizeof(T));
    return value;
  }
};

// cuBLASLt's handles point to types of its own, of which none is ever looked into.
template <class T, class Handle>
T& as(Handle handle) {
  return *reinterpret_cast<T*>(handle);
}

template <class T>
struct Factory {
  template <class Handle>
  static void make(Handle* handle, T value = {}) {
    *handle = reinterpret_cast<Handle>(new T(std::move(value)));
  }
};

int algorithms_offered = 1;
std::vector<uint64_t> algorithms_run;
cudaDataType_t last_result_type, last_bias_type;

double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(0.7978845608 * (x + 0.044715 * x * x * x)));
}

double gelu_slope(double x) { return (gelu(x + 1e-5) - gelu(x - 1e-5)) / 2e-5; }

/// A column-major matrix of floats, transposed where the operation says so.
struct Operand {
  const float* data;
  const MatrixLayout& layout;
  bool transposed;

  double at(int64_t row, int64_t column) const {
    return transposed ? data[column + row * layout.leading] : data[row + column * layout.leading];
  }
};

cublasStatus_t matmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc_handle, const void* alpha,
                      const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                      cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                      cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
                      const cublasLtMatmulAlgo_t* algorithm, void*, size_t, cudaStream_t) {
  const auto& desc = as<MatmulDesc>(desc_handle);
  const auto& layout = as<MatrixLayout>(d_layout);
  EXPECT_EQ(*static_cast<const float*>(alpha), 1);
  EXPECT_EQ(c, d);
  EXPECT_EQ(c_layout, d_layout);
  const float before = *static_cast<const float*>(beta);
  last_result_type = layout.type;
  last_bias_type = desc.get<cudaDataType_t>(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, cudaDataType_t{});
  algorithms_run.push_back(algorithm->data[0]);
  const auto is_transposed = [&](auto attribute) {
    return desc.get<cublasOperation_t>(attribute, CUBLAS_OP_N) == CUBLAS_OP_T;
  };
  const Operand left = {static_cast<const float*>(a), as<MatrixLayout>(a_layout),
                        is_transposed(CUBLASLT_MATMUL_DESC_TRANSA)};
  const Operand right = {static_cast<const float*>(b), as<MatrixLayout>(b_layout),
                         is_transposed(CUBLASLT_MATMUL_DESC_TRANSB)};
  const auto rows = static_cast<int64_t>(layout.rows);
  const auto columns = static_cast<int64_t>(layout.columns);
  const auto inner = static_cast<int64_t>(left.transposed ? left.layout.rows : left.layout.columns);
  EXPECT_EQ(left.transposed ? left.layout.columns : left.layout.rows, layout.rows);
  EXPECT_EQ(right.transposed ? right.layout.rows : right.layout.columns, layout.columns);
  EXPECT_EQ(static_cast<int64_t>(right.transposed ? right.layout.columns : right.layout.rows),
            inner);
  auto* bias = static_cast<float*>(desc.get<void*>(CUBLASLT_MATMUL_DESC_BIAS_POINTER, nullptr));
  auto* auxiliary =
      static_cast<float*>(desc.get<void*>(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, nullptr));
  const auto auxiliary_leading = desc.get<int64_t>(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, 0);
  const auto epilogue =
      desc.get<cublasLtEpilogue_t>(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_DEFAULT);
  auto* output = static_cast<float*>(d);
  for (int64_t column = 0; column < columns; ++column) {
    for (int64_t row = 0; row < rows; ++row) {
      double value = 0;
      for (int64_t k = 0; k < inner; ++k) value += left.at(row, k) * right.at(k, column);
      const bool keeps_sums = epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
      if (keeps_sums || epilogue == CUBLASLT_EPILOGUE_GELU_BIAS) {
        value += bias[row];
        if (keeps_sums) auxiliary[row + column * auxiliary_leading] = static_cast<float>(value);
        value = gelu(value);
      } else if (epilogue == CUBLASLT_EPILOGUE_DGELU) {
        EXPECT_EQ(bias, nullptr);
        value *= gelu_slope(auxiliary[row + column * auxiliary_leading]);
      }
      float& place = output[row + column * layout.leading];
      place = static_cast<float>(value + (before == 0 ? 0 : before * place));
    }
  }
  if (epilogue == CUBLASLT_EPILOGUE_BGRADB) {
    for (int64_t column = 0; column < columns; ++column) {
      double sum = 0;
      for (int64_t k = 0; k < inner; ++k) sum += right.at(k, column);
      bias[column] = static_cast<float>(sum);
    }
  }
  return CUBLAS_STATUS_SUCCESS;
}

template <class T, class Handle>
cublasStatus_t destroy(Handle handle) {
  delete &as<T>(handle);
  return CUBLAS_STATUS_SUCCESS;
}

CublasLtFunctions documented_functions() {
  CublasLtFunctions lt;
  lt.create = [](cublasLtHandle_t* handle) {
    Factory<int>::make(handle);
    return CUBLAS_STATUS_SUCCESS;
  };
  lt.destroy = destroy<int, cublasLtHandle_t>;
  lt.desc_create = [](cublasLtMatmulDesc_t* desc, cublasComputeType_t compute,
                      cudaDataType_t scale) {
    EXPECT_EQ(compute, CUBLAS_COMPUTE_32F);
    EXPECT_EQ(scale, CUDA_R_32F);
    Factory<MatmulDesc>::make(desc);
    return CUBLAS_STATUS_SUCCESS;
  };
  lt.desc_destroy = destroy<MatmulDesc, cublasLtMatmulDesc_t>;
  lt.desc_set = [](cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute,
                   const void* value, size_t size) {
    const auto* bytes = static_cast<const char*>(value);
    as<MatmulDesc>(desc).attributes[attribute].assign(bytes, bytes + size);
    return CUBLAS_STATUS_SUCCESS;
  };
  lt.layout_create = [](cublasLtMatrixLayout_t* layout, cudaDataType_t type, uint64_t rows,
                        uint64_t columns, int64_t leading) {
    EXPECT_GE(leading, static_cast<int64_t>(rows));
    Factory<MatrixLayout>::make(layout, {rows, columns, leading, type});
    return CUBLAS_STATUS_SUCCESS;
  };
  lt.layout_destroy = destroy<MatrixLayout, cublasLtMatrixLayout_t>;
  lt.preference_create = [](cublasLtMatmulPreference_t* preference) {
    Factory<int>::make(preference);
    return CUBLAS_STATUS_SUCCESS;
  };
  lt.preference_destroy = destroy<int, cublasLtMatmulPreference_t>;
  lt.preference_set = [](cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t,
                         const void*, size_t) { return CUBLAS_STATUS_SUCCESS; };
  lt.get_heuristic = [](cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                        cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                        cublasLtMatmulPreference_t, int most,
                        cublasLtMatmulHeuristicResult_t* results, int* count) {
    *count = std::min(most, algorithms_offered);
    for (int i = 0; i < *count; ++i) results[i].algo.data[0] = static_cast<uint64_t>(i);
    return CUBLAS_STATUS_SUCCESS;
  };
  lt.matmul = matmul;
  return lt;
}

class EpilogueProductTest : public testing::Test {
 protected:
  EpilogueProductTest() {
    algorithms_offered = 1;
    algorithms_run.clear();
  }

  std::vector<float> made(int64_t count) {
    std::normal_distribution<float> values;
    std::vector<float> found(static_cast<size_t>(count));
    for (float& value : found) value = values(random_);
    return found;
  }

  /// The row-major matrices of a product, filled.
  EpilogueProduct prepare(Epilogue epilogue, int64_t rows, int64_t columns, int64_t inner) {
    left_ = made(rows * inner);
    right_ = made(columns * inner);
    output_.assign(static_cast<size_t>(rows * columns), -99);
    auxiliary_ = made(rows * columns);
    bias_ = made(epilogue == Epilogue::kBiasGradient ? rows : columns);
    return {.epilogue = epilogue,
            .type = FloatType::kFloat32,
            .adds = false,
            .left = left_.data(),
            .right = right_.data(),
            .output = output_.data(),
            .auxiliary = auxiliary_.data(),
            .bias = bias_.data(),
            .rows = rows,
            .columns = columns,
            .inner = inner};
  }

  bool run(const EpilogueProduct& product, bool timed = false) {
    return products_.run(product, nullptr, nullptr, timed);
  }

  std::mt19937 random_{7};
  CublasLtFunctions functions_ = documented_functions();
  CublasLtProducts products_{functions_};
  std::vector<float> left_, right_, output_, auxiliary_, bias_;
};

constexpr int64_t kRows = 5, kColumns = 7, kInner = 3;
constexpr double kBound = 1e-4;

TEST_F(EpilogueProductTest, AddsTheBiasAndTakesGelu) {
  for (const Epilogue epilogue : {Epilogue::kGeluAuxBias, Epilogue::kGeluBias}) {
    const EpilogueProduct product = prepare(epilogue, kRows, kColumns, kInner);
    const std::vector<float> untouched = auxiliary_;
    ASSERT_TRUE(run(product));
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t c = 0; c < kColumns; ++c) {
        double sum = bias_[static_cast<size_t>(c)];
        for (int64_t k = 0; k < kInner; ++k) {
          sum += double{left_[static_cast<size_t>(r * kInner + k)]} *
                 right_[static_cast<size_t>(c * kInner + k)];
        }
        const auto place = static_cast<size_t>(r * kColumns + c);
        EXPECT_NEAR(output_[place], gelu(sum), kBound);
        if (epilogue == Epilogue::kGeluAuxBias) {
          EXPECT_NEAR(auxiliary_[place], sum, kBound);
        }
      }
    }
    if (epilogue == Epilogue::kGeluBias) {
      EXPECT_EQ(auxiliary_, untouched);
    }
  }
}

TEST_F(EpilogueProductTest, MultipliesByGelusSlope) {
  const EpilogueProduct product = prepare(Epilogue::kGeluGradient, kRows, kColumns, kInner);
  ASSERT_TRUE(run(product));
  for (int64_t c = 0; c < kColumns; ++c) {
    for (int64_t r = 0; r < kRows; ++r) {
      double sum = 0;
      for (int64_t k = 0; k < kInner; ++k) {
        sum += double{left_[static_cast<size_t>(r * kInner + k)]} *
               right_[static_cast<size_t>(k * kColumns + c)];
      }
      const auto place = static_cast<size_t>(r * kColumns + c);
      EXPECT_NEAR(output_[place], sum * gelu_slope(auxiliary_[place]), kBound);
    }
  }
}

TEST_F(EpilogueProductTest, SumsTheGradientsRowsBesideTheWeightsGradient) {
  const EpilogueProduct product = prepare(Epilogue::kBiasGradient, kRows, kColumns, kInner);
  ASSERT_TRUE(run(product));
  for (int64_t r = 0; r < kRows; ++r) {
    double row_sum = 0;
    for (int64_t k = 0; k < kInner; ++k) row_sum += left_[static_cast<size_t>(k * kRows + r)];
    EXPECT_NEAR(bias_[static_cast<size_t>(r)], row_sum, kBound);
    for (int64_t c = 0; c < kColumns; ++c) {
      double sum = 0;
      for (int64_t k = 0; k < kInner; ++k) {
        sum += double{left_[static_cast<size_t>(k * kRows + r)]} *
               right_[static_cast<size_t>(k * kColumns + c)];
      }
      EXPECT_NEAR(output_[static_cast<size_t>(r * kColumns + c)], sum, kBound);
    }
  }
}

TEST_F(EpilogueProductTest, AddsToTheOutputInFp32) {
  for (const Epilogue epilogue : {Epilogue::kBiasGradient, Epilogue::kWeightGradient}) {
    algorithms_offered = 3;
    algorithms_run.clear();
    EpilogueProduct product = prepare(epilogue, kRows, kColumns, kInner);
    product.adds = true;
    product.type = FloatType::kBFloat16;  // as the library sees it; the numbers here are fp32
    ASSERT_TRUE(run(product, /*timed=*/true));
    EXPECT_EQ(algorithms_run, (std::vector<uint64_t>{0})) << "it ran more than once";
    EXPECT_EQ(last_result_type, CUDA_R_32F);
    const bool has_bias = epilogue == Epilogue::kBiasGradient;
    EXPECT_EQ(last_bias_type, has_bias ? CUDA_R_32F : cudaDataType_t{});
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t c = 0; c < kColumns; ++c) {
        double sum = -99;  // what was there
        for (int64_t k = 0; k < kInner; ++k) {
          sum += double{left_[static_cast<size_t>(k * kRows + r)]} *
                 right_[static_cast<size_t>(k * kColumns + c)];
        }
        EXPECT_NEAR(output_[static_cast<size_t>(r * kColumns + c)], sum, kBound);
      }
    }
  }
}

TEST_F(EpilogueProductTest, TakesTheFirstAlgorithmWhereNoneIsTimed) {
  algorithms_offered = 5;
  const EpilogueProduct product = prepare(Epilogue::kBiasGradient, kRows, kColumns, kInner);
  ASSERT_TRUE(run(product));
  ASSERT_TRUE(run(product));
  EXPECT_EQ(algorithms_run, (std::vector<uint64_t>{0, 0}));
}

TEST_F(EpilogueProductTest, TimesAShapesAlgorithmsOnce) {
  algorithms_offered = 3;
  const EpilogueProduct product = prepare(Epilogue::kBiasGradient, kRows, kColumns, kInner);
  ASSERT_TRUE(run(product, /*timed=*/true));
  const size_t first = algorithms_run.size();
  EXPECT_GT(first, 3U);
  ASSERT_TRUE(run(product, /*timed=*/true));
  EXPECT_EQ(algorithms_run.size(), first + 1);
}

TEST_F(EpilogueProductTest, SaysWhereThereIsNoAlgorithm) {
  algorithms_offered = 0;
  const EpilogueProduct product = prepare(Epilogue::kGeluAuxBias, kRows, kColumns, kInner);
  EXPECT_FALSE(run(product));
  EXPECT_TRUE(algorithms_run.empty());
  EXPECT_EQ(output_[0], -99);
}

}  // namespace
}  // namespace meg::kernels
