#include <algorithm>

#include "libmeg/kernels/internal/cpu_runs.h"
#include "libmeg/kernels/optimizer/multi_tensor_adam.h"

namespace meg::kernels {
namespace {

AdamScalars scalars_of(const AdamStep& step, int group) {
  return {step.inverse_loss_scale,
          step.clip_coefficient,
          step.beta1,
          step.beta2,
          step.bias_correction1,
          step.bias_correction2,
          step.eps,
          step.groups[group].learning_rate,
          step.groups[group].weight_decay,
          step.adam_w_mode};
}

}  // namespace

void multi_tensor_adam_cpu(const AdamTensor* tensors, int64_t tensor_count, const AdamStep& step,
                           int64_t chunk_begin, int64_t chunk_end) {
  float buffer[kRunElements];
  for (int64_t chunk = chunk_begin; chunk < chunk_end; ++chunk) {
    const ChunkPlace place = place_of_chunk(tensors, tensor_count, chunk);
    const AdamTensor& tensor = tensors[place.tensor];
    const AdamScalars scalars = scalars_of(step, tensor.group);
    const CpuRuns gradients(tensor.gradient_type);
    const CpuRuns weights(tensor.weight_type);
    for (int64_t done = 0; done < place.count; done += kRunElements) {
      const int64_t begin = place.begin + done;
      const int64_t count = std::min(kRunElements, place.count - done);
      // A run of 1024 elements goes through all that the step does to it while it is in the near
      // caches: widened, updated, narrowed.
      const float* gradient = gradients.read(tensor.gradient, begin, count, buffer);
      float* master = tensor.master + begin;
      gradients.loops().adam(scalars, gradient, master, tensor.exp_avg + begin,
                             tensor.exp_avg_sq + begin, count);
      if (tensor.weight != nullptr) weights.write(master, tensor.weight, begin, count);
    }
  }
}

}  // namespace meg::kernels
