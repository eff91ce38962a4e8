#include "libmeg/kernels/product/epilogue_product.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

#include "libmeg/kernels/product/internal/cublaslt_functions.h"

namespace meg::kernels {
namespace {

/// Algorithms that are timed. The first few of the library's list are the only ones that ever win.
constexpr int kTimedAlgorithms = 8;
constexpr int kTimedRuns = 3;

template <class F>
bool find(F& function, const char* name) {
  function = reinterpret_cast<F>(::dlsym(RTLD_DEFAULT, name));
  return function != nullptr;
}

/// An object of cuBLASLt that its own function frees.
template <class Handle, class Destroy>
class Owned {
 public:
  explicit Owned(Destroy destroy) : destroy_(destroy) {}

  ~Owned() {
    if (handle_ != nullptr) destroy_(handle_);
  }

  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;

  Handle* out() { return &handle_; }

  Handle get() const { return handle_; }

 private:
  Destroy destroy_;
  Handle handle_ = nullptr;
};

using Desc = Owned<cublasLtMatmulDesc_t, decltype(&cublasLtMatmulDescDestroy)>;
using Layout = Owned<cublasLtMatrixLayout_t, decltype(&cublasLtMatrixLayoutDestroy)>;
using Preference = Owned<cublasLtMatmulPreference_t, decltype(&cublasLtMatmulPreferenceDestroy)>;

cudaDataType_t cuda_type(FloatType type) {
  switch (type) {
    case FloatType::kFloat16:
      return CUDA_R_16F;
    case FloatType::kBFloat16:
      return CUDA_R_16BF;
    case FloatType::kFloat32:
      break;
  }
  return CUDA_R_32F;
}

cublasLtEpilogue_t cublas_epilogue(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::kGeluAuxBias:
      return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case Epilogue::kGeluBias:
      return CUBLASLT_EPILOGUE_GELU_BIAS;
    case Epilogue::kGeluGradient:
      return CUBLASLT_EPILOGUE_DGELU;
    case Epilogue::kBiasGradient:
      return CUBLASLT_EPILOGUE_BGRADB;
    case Epilogue::kWeightGradient:
      break;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

/// Bytes that the beginnings of all arrays are a multiple of: a power of 2, 256 at most, which is
/// what algorithms ask for at most.
uint32_t alignment_of(const EpilogueProduct& product) {
  // The lowest bit that is set in any address, 256 if none below it is.
  uintptr_t bits = 256;
  const auto add = [&](const void* array) { bits |= reinterpret_cast<uintptr_t>(array); };
  add(product.left);
  add(product.right);
  add(product.output);
  add(product.auxiliary);
  add(product.bias);
  return static_cast<uint32_t>(bits & (~bits + 1));
}

/// What an algorithm depends on.
using Shape = std::tuple<Epilogue, FloatType, bool, int64_t, int64_t, int64_t, uint32_t>;

Shape shape_of(const EpilogueProduct& product) {
  return {product.epilogue, product.type,  product.adds,         product.rows,
          product.columns,  product.inner, alignment_of(product)};
}

/// A product as cuBLASLt takes it. The library's matrices are column-major, which a row-major
/// matrix's transpose is: output^T = right^T x left^T, so `right` is its A and `left` its B.
class Plan {
 public:
  Plan(const CublasLtFunctions& lt, const EpilogueProduct& product)
      : lt_(lt),
        product_(product),
        desc_(lt.desc_destroy),
        a_(lt.layout_destroy),
        b_(lt.layout_destroy),
        d_(lt.layout_destroy) {}

  bool build() {
    // A row-major [r, c] as it lies is a column-major c x r; where the product reads an array
    // transposed, its dimensions are those before the transposition.
    const int64_t rows = product_.rows, columns = product_.columns, inner = product_.inner;
    const bool transposes_a = is_gelu();
    const bool transposes_b = is_weight_gradient();
    const cudaDataType_t type = cuda_type(product_.type);
    return create(a_, type, transposes_a ? inner : columns, transposes_a ? columns : inner) &&
           create(b_, type, transposes_b ? rows : inner, transposes_b ? inner : rows) &&
           create(d_, result_type(), columns, rows) &&
           lt_.desc_create(desc_.out(), CUBLAS_COMPUTE_32F, CUDA_R_32F) == CUBLAS_STATUS_SUCCESS &&
           set(CUBLASLT_MATMUL_DESC_TRANSA, transposes_a ? CUBLAS_OP_T : CUBLAS_OP_N) &&
           set(CUBLASLT_MATMUL_DESC_TRANSB, transposes_b ? CUBLAS_OP_T : CUBLAS_OP_N) &&
           set(CUBLASLT_MATMUL_DESC_EPILOGUE, cublas_epilogue(product_.epilogue)) && set_bias() &&
           set_auxiliary();
  }

  /// The library's algorithms for the shape, the one that it holds for the best first.
  int algorithms(cublasLtHandle_t handle,
                 std::array<cublasLtMatmulHeuristicResult_t, kTimedAlgorithms>& found) const {
    Preference preference(lt_.preference_destroy);
    const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      return lt_.preference_set(preference.get(), attribute, &value, sizeof(value)) ==
             CUBLAS_STATUS_SUCCESS;
    };
    const uint32_t alignment = alignment_of(product_);
    int count = 0;
    const bool done =
        lt_.preference_create(preference.out()) == CUBLAS_STATUS_SUCCESS &&
        set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, CublasLtProducts::kWorkspaceSize) &&
        set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment) &&
        set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment) &&
        set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment) &&
        set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment) &&
        lt_.get_heuristic(handle, desc_.get(), a_.get(), b_.get(), d_.get(), d_.get(),
                          preference.get(), kTimedAlgorithms, found.data(),
                          &count) == CUBLAS_STATUS_SUCCESS;
    if (!done) return 0;
    const auto end = std::remove_if(found.begin(), found.begin() + count, [](const auto& result) {
      return result.state != CUBLAS_STATUS_SUCCESS;
    });
    return static_cast<int>(end - found.begin());
  }

  bool run(cublasLtHandle_t handle, const cublasLtMatmulAlgo_t& algorithm, void* workspace,
           cudaStream_t stream) const {
    const float alpha = 1, beta = product_.adds ? 1 : 0;
    return lt_.matmul(handle, desc_.get(), &alpha, product_.right, a_.get(), product_.left,
                      b_.get(), &beta, product_.output, d_.get(), product_.output, d_.get(),
                      &algorithm, workspace, CublasLtProducts::kWorkspaceSize,
                      stream) == CUBLAS_STATUS_SUCCESS;
  }

 private:
  bool is_gelu() const {
    return product_.epilogue == Epilogue::kGeluAuxBias || product_.epilogue == Epilogue::kGeluBias;
  }

  bool is_weight_gradient() const {
    return product_.epilogue == Epilogue::kBiasGradient ||
           product_.epilogue == Epilogue::kWeightGradient;
  }

  cudaDataType_t result_type() const {
    return product_.adds ? CUDA_R_32F : cuda_type(product_.type);
  }

  /// A dense column-major matrix.
  bool create(Layout& layout, cudaDataType_t type, int64_t rows, int64_t columns) const {
    return lt_.layout_create(layout.out(), type, static_cast<uint64_t>(rows),
                             static_cast<uint64_t>(columns), rows) == CUBLAS_STATUS_SUCCESS;
  }

  template <class T>
  bool set(cublasLtMatmulDescAttributes_t attribute, const T& value) const {
    return lt_.desc_set(desc_.get(), attribute, &value, sizeof(value)) == CUBLAS_STATUS_SUCCESS;
  }

  bool set_bias() const {
    // The library refuses a bias that the epilogue has no use for.
    if (!is_gelu() && product_.epilogue != Epilogue::kBiasGradient) return true;
    return set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, product_.bias) &&
           set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, result_type());
  }

  bool set_auxiliary() const {
    if (product_.auxiliary == nullptr) return true;
    return set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, product_.auxiliary) &&
           set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, product_.columns);
  }

  const CublasLtFunctions& lt_;
  const EpilogueProduct& product_;
  Desc desc_;
  Layout a_, b_, d_;
};

/// Milliseconds between two points of a stream.
class DeviceStopwatch {
 public:
  explicit DeviceStopwatch(cudaStream_t stream) : stream_(stream) {
    cudaEventCreate(&begin_);
    cudaEventCreate(&end_);
  }

  ~DeviceStopwatch() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }

  DeviceStopwatch(const DeviceStopwatch&) = delete;
  DeviceStopwatch& operator=(const DeviceStopwatch&) = delete;

  void start() const { cudaEventRecord(begin_, stream_); }

  float stop() const {
    float time = std::numeric_limits<float>::max();
    cudaEventRecord(end_, stream_);
    cudaEventSynchronize(end_);
    cudaEventElapsedTime(&time, begin_, end_);
    return time;
  }

 private:
  cudaStream_t stream_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

}  // namespace

std::optional<CublasLtFunctions> CublasLtFunctions::loaded() {
  CublasLtFunctions lt;
  const bool found = find(lt.create, "cublasLtCreate") && find(lt.destroy, "cublasLtDestroy") &&
                     find(lt.desc_create, "cublasLtMatmulDescCreate") &&
                     find(lt.desc_destroy, "cublasLtMatmulDescDestroy") &&
                     find(lt.desc_set, "cublasLtMatmulDescSetAttribute") &&
                     find(lt.layout_create, "cublasLtMatrixLayoutCreate") &&
                     find(lt.layout_destroy, "cublasLtMatrixLayoutDestroy") &&
                     find(lt.preference_create, "cublasLtMatmulPreferenceCreate") &&
                     find(lt.preference_destroy, "cublasLtMatmulPreferenceDestroy") &&
                     find(lt.preference_set, "cublasLtMatmulPreferenceSetAttribute") &&
                     find(lt.get_heuristic, "cublasLtMatmulAlgoGetHeuristic") &&
                     find(lt.matmul, "cublasLtMatmul");
  return found ? std::optional(lt) : std::nullopt;
}

class CublasLtProducts::State {
 public:
  explicit State(const CublasLtFunctions& lt) : lt_(lt) {
    if (lt_.create(&handle_) != CUBLAS_STATUS_SUCCESS) handle_ = nullptr;
  }

  ~State() {
    if (handle_ != nullptr) lt_.destroy(handle_);
  }

  State(const State&) = delete;
  State& operator=(const State&) = delete;

  bool run(const EpilogueProduct& product, void* workspace, cudaStream_t stream, bool timed) {
    Plan plan(lt_, product);
    if (handle_ == nullptr || !plan.build()) return false;
    const std::lock_guard lock(mutex_);
    // Choose under the lock, so that two threads do not time one shape beside each other and spoil
    // both measurements. A shape without an algorithm is remembered as well.
    auto [place, is_new] = chosen_.try_emplace(shape_of(product));
    if (is_new) place->second = choose(plan, workspace, stream, timed && !product.adds);
    return place->second.has_value() && plan.run(handle_, *place->second, workspace, stream);
  }

 private:
  std::optional<cublasLtMatmulAlgo_t> choose(const Plan& plan, void* workspace, cudaStream_t stream,
                                             bool timed) const {
    std::array<cublasLtMatmulHeuristicResult_t, kTimedAlgorithms> found{};
    const int count = plan.algorithms(handle_, found);
    if (count == 0) return std::nullopt;
    if (!timed || count == 1) return found[0].algo;
    // Only products that do not add get here: no output is an input, so they may run several times.
    const DeviceStopwatch stopwatch(stream);
    std::pair<float, const cublasLtMatmulHeuristicResult_t*> best = {
        std::numeric_limits<float>::max(), &found[0]};
    for (int i = 0; i < count; ++i) {
      // A first run, untimed: it may load the kernel.
      bool ran = plan.run(handle_, found[i].algo, workspace, stream);
      stopwatch.start();
      for (int run = 0; run < kTimedRuns; ++run) {
        ran = ran && plan.run(handle_, found[i].algo, workspace, stream);
      }
      const float time = stopwatch.stop();
      if (ran && time < best.first) best = {time, &found[i]};
    }
    return best.second->algo;
  }

  CublasLtFunctions lt_;
  cublasLtHandle_t handle_ = nullptr;
  std::mutex mutex_;
  std::map<Shape, std::optional<cublasLtMatmulAlgo_t>> chosen_;
};

std::unique_ptr<CublasLtProducts> CublasLtProducts::of_loaded_library() {
  const std::optional<CublasLtFunctions> functions = CublasLtFunctions::loaded();
  return functions.has_value() ? std::make_unique<CublasLtProducts>(*functions) : nullptr;
}

CublasLtProducts::CublasLtProducts(const CublasLtFunctions& functions)
    : state_(std::make_unique<State>(functions)) {}

CublasLtProducts::~CublasLtProducts() = default;

bool CublasLtProducts::run(const EpilogueProduct& product, void* workspace, CUstream_st* stream,
                           bool timed) {
  return state_->run(product, workspace, stream, timed);
}

}  // namespace meg::kernels
