// Stands for what uses cuDNN in a build without its headers.

#include "libmeg/kernels/cudnn/attention_gradient.h"

namespace meg::kernels {
namespace {

Status no_cudnn() {
  return make_error(StatusCode::kUnsupported, "cuDNN: libmeg was built without its headers");
}

}  // namespace

Result<std::unique_ptr<CudnnAttentionGradient>> CudnnAttentionGradient::create(
    const AttentionGradientShape&) {
  return no_cudnn();
}

Status CudnnAttentionGradient::check_support(const AttentionGradientShape&, std::string_view, int) {
  return no_cudnn();
}

}  // namespace meg::kernels
