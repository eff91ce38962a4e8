#pragma once

#include <ATen/core/Tensor.h>

namespace meg::libtorch {

/// A host's tensor on a device: itself on a CPU; on a GPU a copy that work queued from now on sees
/// and that the host does not wait for. LibTorch's exceptions fly.
at::Tensor sent_to(at::Device device, const at::Tensor& host);

}  // namespace meg::libtorch
