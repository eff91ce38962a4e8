#include "libmeg/nn/operators/few_rows_linear.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include "libmeg/base/cpu.h"
#include "libmeg/kernels/cpu/parallel_for.h"
#include "libmeg/kernels/product/few_rows_product.h"
#include "libmeg/nn/operators/kernel_call.h"

namespace meg::nn {
namespace {

/// Columns that a thread takes at least.
constexpr int64_t kColumnGrain = 96;

}  // namespace

/// Generation multiplies one or a few rows a step. For up to kFewRows this product is the faster
/// one, with more rows oneDNN catches up (docs/performance.md). Inference alone: it has no
/// gradient.
bool has_few_rows(const at::Tensor& input, const at::Tensor& weight) {
  return c10::InferenceMode::is_enabled() && input.is_cpu() && weight.is_contiguous() &&
         best_instruction_set() != InstructionSet::kPortable && input.numel() > 0 &&
         input.numel() <= kFewRows * weight.size(1);
}

at::Tensor few_rows_linear(const at::Tensor& input, const at::Tensor& weight,
                           const at::Tensor& bias) {
  std::vector<int64_t> sizes = input.sizes().vec();
  sizes.back() = weight.size(0);
  const at::Tensor output = at::empty(sizes, input.options());
  const at::Tensor dense = input.contiguous();
  kernels::FewRowsProduct call;
  call.type = float_type(weight);
  call.input = dense.const_data_ptr();
  call.weight = weight.const_data_ptr();
  call.bias = bias.defined() ? bias.const_data_ptr() : nullptr;
  call.output = output.mutable_data_ptr();
  call.columns = weight.size(0);
  call.depth = weight.size(1);
  call.rows = input.numel() / call.depth;
  kernels::parallel_for(call.columns, kColumnGrain, [&](int64_t begin, int64_t end) {
    kernels::few_rows_product_cpu(call, begin, end);
  });
  return output;
}

}  // namespace meg::nn
