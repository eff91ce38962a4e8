#pragma once

#include "libmeg/nn/gpt_options.h"

namespace meg::nn {

/// Which kernels of LibTorch's scaled-dot-product attention may compute on a GPU.
struct AttentionKernels {
  bool flash = true;
  bool cudnn = false;
  bool efficient = true;
  bool math = true;

  bool operator==(const AttentionKernels&) const = default;
};

/// Those of a pass over whole sequences. cuDNN is for training alone: it makes a plan for each new
/// shape, which takes longer than many steps of inference; and its dropout knows 16 probabilities.
AttentionKernels attention_kernels(const GptOptions& options, bool training);

/// Lets LibTorch choose among these kernels only, while it lives. GPUs only: it has one for CPUs.
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
