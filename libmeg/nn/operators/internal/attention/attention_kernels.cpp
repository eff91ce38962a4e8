#include "libmeg/nn/operators/internal/attention/attention_kernels.h"

#include <ATen/Context.h>

namespace meg::nn {
namespace {

void allow(const AttentionKernels& kernels) {
  at::Context& context = at::globalContext();
  context.setSDPUseFlash(kernels.flash);
  context.setSDPUseCuDNN(kernels.cudnn);
  context.setSDPUseMemEfficient(kernels.efficient);
  context.setSDPUseMath(kernels.math);
}

AttentionKernels allowed() {
  const at::Context& context = at::globalContext();
  return {.flash = context.userEnabledFlashSDP(),
          .cudnn = context.userEnabledCuDNNSDP(),
          .efficient = context.userEnabledMemEfficientSDP(),
          .math = context.userEnabledMathSDP()};
}

}  // namespace

AttentionKernels attention_kernels(const GptOptions& options, bool training) {
  AttentionKernels kernels;
  if (options.attention_backend == AttentionBackend::kFlash) {
    kernels.efficient = kernels.math = false;
  } else if (training) {
    kernels.cudnn = options.drops_in_sixteenths();
    const bool others = options.attention_backend != AttentionBackend::kFused;
    kernels.flash = kernels.efficient = kernels.math = others;
  }
  return kernels;
}

AttentionKernelChoice::AttentionKernelChoice(const AttentionKernels& kernels) : kept_(allowed()) {
  allow(kernels);
}

AttentionKernelChoice::~AttentionKernelChoice() { allow(kept_); }

}  // namespace meg::nn
