#pragma once

#include "libmeg/nn/gpt_options.h"

namespace meg::nn {

/// The kernels that LibTorch's scaled-dot-product attention may use on a GPU.
struct AttentionKernels {
  bool flash = true;
  bool cudnn = false;
  bool efficient = true;
  bool math = true;

  bool operator==(const AttentionKernels&) const = default;
};

/// The kernels for a pass over whole sequences. cuDNN is used only in training on sequences of one
/// length, because it makes a plan for each new shape, which takes longer than many steps of
/// inference. Its dropout supports only 16 probabilities.
AttentionKernels attention_kernels(const GptOptions& options, bool training);

/// Restricts LibTorch's choice to these kernels during its lifetime. Has no effect on CPUs, for
/// which there is one kernel.
class AttentionKernelChoice {
 public:
  explicit AttentionKernelChoice(const AttentionKernels& kernels);
  ~AttentionKernelChoice();

  AttentionKernelChoice(const AttentionKernelChoice&) = delete;
  AttentionKernelChoice& operator=(const AttentionKernelChoice&) = delete;

 private:
  AttentionKernels kept_;
};

}  // namespace meg::nn
