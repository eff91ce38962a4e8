#include "libmeg/nn/operators/internal/linear_product.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/InferenceMode.h>

#include "libmeg/nn/operators/few_rows_linear.h"
#include "libmeg/nn/operators/internal/epilogue_linear.h"
#include "libmeg/nn/operators/internal/widened_product.h"

namespace meg::nn {
namespace {

using Product = at::Tensor(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&,
                           std::string_view, c10::List<std::optional<at::Scalar>>,
                           std::optional<std::string_view>);

bool suits_onednn(const at::Tensor& input) {
  return input.is_cpu() && input.scalar_type() == at::kFloat && c10::InferenceMode::is_enabled() &&
         at::globalContext().userEnabledMkldnn() && at::hasMKLDNN();
}

at::Tensor onednn_product(const at::Tensor& input, const at::Tensor& weight,
                          const at::Tensor& bias) {
  static const c10::TypedOperatorHandle<Product> product =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("mkldnn::_linear_pointwise", "")
          .typed<Product>();
  return product.call(input, weight, bias.defined() ? std::optional(bias) : std::nullopt, "none",
                      c10::List<std::optional<at::Scalar>>(), "");
}

}  // namespace

at::Tensor linear_product(const at::Tensor& input, const at::Tensor& weight,
                          const at::Tensor& bias) {
  if (has_few_rows(input, weight)) return few_rows_linear(input, weight, bias);
  if (is_widened(weight)) {
    std::vector<int64_t> sizes = input.sizes().vec();
    sizes.back() = weight.size(0);
    return widened_product(input.reshape({-1, weight.size(1)}), weight, bias).view(sizes);
  }
  if (has_epilogues(input, weight)) return epilogue_linear(input, weight, bias);
  if (suits_onednn(input)) return onednn_product(input, weight, bias);
  return at::linear(input, weight, bias);
}

}  // namespace meg::nn
