// kernel_gpu_bench: milliseconds and GB/s of the CUDA kernels, access by access, at the shapes of
// the 345M model with 16384 tokens, beside a plain copy on the device. Needs no LibTorch. Arrays
// hold random numbers: with zeros a GPU draws less power and runs faster than any training does.
// What the kernels compute is held by kernels_gpu_test. One line a kernel: name, type, access, ms,
// GB/s, % of the copy. kernel_gpu_peer.py prints the same names for PyTorch; scripts/gpu_check.sh
// puts both together.

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "libmeg/kernels/bias_gelu.h"
#include "libmeg/kernels/optimizer/gradient_statistics.h"
#include "libmeg/kernels/optimizer/multi_tensor_adam.h"
#include "libmeg/kernels/softmax_cross_entropy.h"
#include "tests/kernels/float_array.h"

namespace {

using namespace meg::kernels;

constexpr int64_t kTokens = 16384;
constexpr int64_t kVocabulary = 50304;
constexpr int64_t kFfnHidden = 4096;
constexpr int64_t kParameters = 354871296;
constexpr int kRuns = 20;

/// Device memory, uninitialized; ends the program where there is not enough.
class Buffer {
 public:
  explicit Buffer(int64_t bytes) : bytes_(bytes) {
    if (cudaMalloc(&pointer_, static_cast<size_t>(bytes)) != cudaSuccess) {
      std::fprintf(stderr, "error: no %lld bytes of GPU memory\n", static_cast<long long>(bytes));
      std::exit(1);
    }
  }

  /// Holds normal numbers, as fill_normal() makes them.
  Buffer(meg::kernels::FloatType type, int64_t count, float deviation = 1)
      : Buffer(count * meg::kernels::float_type_size(type)) {
    fill_normal(type, deviation);
  }

  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  ~Buffer() { cudaFree(pointer_); }

  /// The same bytes again and again.
  void fill(const void* block, size_t size) {
    for (size_t at = 0; at < static_cast<size_t>(bytes_); at += size) {
      cudaMemcpy(get<char>() + at, block, std::min(size, static_cast<size_t>(bytes_) - at),
                 cudaMemcpyHostToDevice);
    }
  }

  void fill(meg::kernels::FloatType type, const std::vector<float>& values) {
    const meg::test::FloatArray block(type, values);
    fill(block.data(), block.size_bytes());
  }

  void fill_normal(meg::kernels::FloatType type, float deviation = 1) {
    fill(type, meg::test::normal_values(kBlock, deviation, 1));
  }

  template <class T = void>
  T* get() const {
    return static_cast<T*>(pointer_);
  }

 private:
  static constexpr int64_t kBlock = 1000003;  ///< Rows of a matrix do not repeat.

  void* pointer_ = nullptr;
  int64_t bytes_;
};

std::vector<int64_t> random_labels() {
  std::mt19937 random(1);
  std::uniform_int_distribution<int64_t> any(0, kVocabulary - 1);
  std::vector<int64_t> labels(kTokens);
  std::generate(labels.begin(), labels.end(), [&] { return any(random); });
  return labels;
}

/// The median of kRuns runs, in milliseconds; every run must return 0.
double milliseconds(const std::function<int()>& run) {
  cudaEvent_t begin, end;
  cudaEventCreate(&begin);
  cudaEventCreate(&end);
  std::vector<float> times;
  for (int i = 0; i < kRuns + 3; ++i) {
    cudaEventRecord(begin, nullptr);
    if (run() != 0) return -1;
    cudaEventRecord(end, nullptr);
    cudaEventSynchronize(end);
    float time = 0;
    cudaEventElapsedTime(&time, begin, end);
    if (i >= 3) times.push_back(time);
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  std::nth_element(times.begin(), times.begin() + kRuns / 2, times.end());
  return double{times[kRuns / 2]};
}

double copy_speed() {
  constexpr int64_t kBytes = int64_t{2} << 30;
  const Buffer from(meg::kernels::FloatType::kFloat32, kBytes / 4), to(kBytes);
  const double time = milliseconds([&] {
    return int{cudaMemcpyAsync(to.get(), from.get(), kBytes, cudaMemcpyDeviceToDevice, nullptr)};
  });
  return 2.0 * kBytes / time / 1e6;
}

/// Prints lines and remembers whether every kernel ran.
class Report {
 public:
  explicit Report(double copy) : copy_(copy) { std::printf("copy - - %.3f %.0f 100\n", 0.0, copy); }

  void line(const char* name, const char* type, meg::kernels::CudaAccess access, int64_t bytes,
            const std::function<int()>& run) {
    const double time = milliseconds(run);
    all_ran_ &= time > 0 && cudaGetLastError() == cudaSuccess;
    const double speed = static_cast<double>(bytes) / time / 1e6;
    std::printf("%s %s %s %.3f %.0f %.0f\n", name, type,
                access == meg::kernels::CudaAccess::kScalar ? "plain" : "vector", time, speed,
                100 * speed / copy_);
    std::fflush(stdout);
  }

  bool all_ran() const { return all_ran_; }

 private:
  double copy_;
  bool all_ran_ = true;
};

void bench_cross_entropy(Report& report, meg::kernels::FloatType type, const char* name) {
  const int64_t bytes = kTokens * kVocabulary * meg::kernels::float_type_size(type);
  Buffer logits(bytes), labels(8 * kTokens);
  const Buffer rows(meg::kernels::FloatType::kFloat32, 4 * kTokens), label_error(4);
  const std::vector<int64_t> chosen = random_labels();
  labels.fill(chosen.data(), chosen.size() * sizeof(int64_t));
  float* losses = rows.get<float>();
  float *maxima = losses + kTokens, *sums = maxima + kTokens, *grad_losses = sums + kTokens;
  for (const auto access :
       {meg::kernels::CudaAccess::kScalar, meg::kernels::CudaAccess::kVectorized}) {
    logits.fill_normal(type);  // Their gradient takes their place.
    report.line("cross_entropy_forward", name, access, bytes, [&] {
      return meg::kernels::softmax_cross_entropy_forward_cuda(
          {type, logits.get(), labels.get<int64_t>(), losses, maxima, sums, kTokens, kVocabulary},
          label_error.get<int>(), nullptr, access);
    });
    report.line("cross_entropy_backward", name, access, 2 * bytes, [&] {
      return meg::kernels::softmax_cross_entropy_backward_cuda(
          {type, logits.get(), labels.get<int64_t>(), maxima, sums, grad_losses, logits.get(),
           kTokens, kVocabulary},
          nullptr, access);
    });
  }
}

void bench_bias_gelu(Report& report, meg::kernels::FloatType type, const char* name) {
  const int64_t bytes = kTokens * kFfnHidden * meg::kernels::float_type_size(type);
  const int64_t count = kTokens * kFfnHidden;
  const Buffer input(type, count), bias(type, kFfnHidden), gradient(type, count), output(bytes);
  for (const auto access :
       {meg::kernels::CudaAccess::kScalar, meg::kernels::CudaAccess::kVectorized}) {
    report.line("bias_gelu_forward", name, access, 2 * bytes, [&] {
      return meg::kernels::bias_gelu_forward_cuda(
          {type, input.get(), bias.get(), output.get(), kTokens, kFfnHidden}, nullptr, access);
    });
    report.line("bias_gelu_backward", name, access, 3 * bytes, [&] {
      return meg::kernels::bias_gelu_backward_cuda(
          {type, gradient.get(), input.get(), bias.get(), output.get(), kTokens, kFfnHidden},
          nullptr, access);
    });
  }
}

/// fp32 gradients and masters, bf16 weights, in one flat buffer each.
void bench_optimizer(Report& report) {
  constexpr auto kType = meg::kernels::FloatType::kFloat32;
  const Buffer gradient(kType, kParameters), master(kType, kParameters);
  const Buffer exp_avg(kType, kParameters), weight(2 * kParameters);
  Buffer exp_avg_sq(4 * kParameters);
  std::vector<float> squares = meg::test::normal_values(kTokens, 1, 2);
  for (float& value : squares) value *= value;
  exp_avg_sq.fill(kType, squares);
  meg::kernels::GradientTensor of_gradient{gradient.get(), meg::kernels::FloatType::kFloat32,
                                           kParameters};
  const int64_t chunks = meg::kernels::number_chunks(&of_gradient, 1);
  meg::kernels::AdamTensor of_adam{gradient.get(), meg::kernels::FloatType::kFloat32,
                                   master.get<float>(), exp_avg.get<float>(),
                                   exp_avg_sq.get<float>()};
  of_adam.weight = weight.get();
  of_adam.count = kParameters;
  meg::kernels::number_chunks(&of_adam, 1);
  const Buffer gradients(sizeof(of_gradient)), adam(sizeof(of_adam));
  const Buffer of_chunks((chunks + 1) *
                         static_cast<int64_t>(sizeof(meg::kernels::GradientStatistics)));
  cudaMemcpy(gradients.get(), &of_gradient, sizeof(of_gradient), cudaMemcpyHostToDevice);
  cudaMemcpy(adam.get(), &of_adam, sizeof(of_adam), cudaMemcpyHostToDevice);
  auto* statistics = of_chunks.get<meg::kernels::GradientStatistics>();
  report.line(
      "gradient_statistics", "fp32", meg::kernels::CudaAccess::kScalar, 4 * kParameters, [&] {
        return meg::kernels::gradient_statistics_cuda(gradients.get<meg::kernels::GradientTensor>(),
                                                      1, 1, statistics, chunks, statistics + chunks,
                                                      nullptr);
      });
  meg::kernels::AdamStep step;
  step.groups[0] = {1e-4f, 0.01f};
  for (const auto access :
       {meg::kernels::CudaAccess::kScalar, meg::kernels::CudaAccess::kVectorized}) {
    report.line("adam", "fp32", access, 30 * kParameters, [&] {
      return meg::kernels::multi_tensor_adam_cuda(adam.get<meg::kernels::AdamTensor>(), 1, step,
                                                  chunks, nullptr, access);
    });
  }
}

}  // namespace

int main() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::fprintf(stderr, "error: no GPU on this machine\n");
    return 1;
  }
  Report report(copy_speed());
  bench_cross_entropy(report, meg::kernels::FloatType::kFloat32, "fp32");
  bench_cross_entropy(report, meg::kernels::FloatType::kBFloat16, "bf16");
  bench_bias_gelu(report, meg::kernels::FloatType::kFloat32, "fp32");
  bench_bias_gelu(report, meg::kernels::FloatType::kBFloat16, "bf16");
  bench_optimizer(report);
  return report.all_ran() ? 0 : 1;
}
