#include "libmeg/nn/initialise_weights.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/GradMode.h>

#include <cmath>
#include <string_view>

#include "libmeg/libtorch/torch_guard.h"
#include "libmeg/model/shard_axes.h"

namespace meg::nn {
namespace {

/// The checkpoint version whose order of query, key and value the modules have.
constexpr double kCheckpointVersion = 3.0;

/// Hash of a parameter's name (FNV-1a), so that its numbers do not depend on what lies before it.
/// The tied copy has the embedding's.
uint64_t name_hash(std::string_view name) {
  if (name == model::kTiedCopyName) name = "embedding.word_embeddings.weight";
  uint64_t hash = 0xcbf29ce484222325;
  for (const char letter : name) {
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3;
  }
  return hash;
}

/// The deviation of a matrix's elements.
double standard_deviation(std::string_view name, const GptModel& model) {
  const double deviation = model.options().init_method_std;
  // Matrices that add to the residual stream start smaller by the root of twice the layers,
  // Megatron's scaled initialisation.
  const bool is_output =
      name.ends_with("linear_proj.weight") || name.ends_with("linear_fc2.weight");
  if (!is_output) return deviation;
  return deviation / std::sqrt(2.0 * static_cast<double>(model.config().num_layers));
}

/// A whole matrix's first elements, in fp32 on the CPU.
at::Tensor drawn_matrix(const GptParameter& parameter, const GptModel& model, uint64_t seed) {
  // Each matrix is drawn whole, on the CPU and from a generator of its own: so the model is the
  // same whatever the parallel sizes and the device are.
  at::Generator generator = at::detail::createCPUGenerator(seed ^ name_hash(parameter.name));
  const int64_t ranks = model.part().sizes.tensor_size_of(parameter.is_expert);
  at::Tensor drawn = at::empty(
      model::merged_shape(parameter.partition, parameter.tensor.sizes().vec(), ranks), at::kFloat);
  if (!model.options().init_method_xavier_uniform || drawn.dim() == 1) {
    return drawn.normal_(0, standard_deviation(parameter.name, model), generator);
  }
  const double bound = std::sqrt(6.0 / static_cast<double>(drawn.size(0) + drawn.size(1)));
  return drawn.uniform_(-bound, bound, generator);
}

/// This rank's share of a whole matrix.
at::Tensor own_part(const at::Tensor& whole, const GptParameter& parameter, const GptModel& model) {
  const ModelPart& part = model.part();
  const int64_t ranks = part.sizes.tensor_size_of(parameter.is_expert);
  if (ranks == 1) return whole;
  const Result<model::ShardAxes> axes =
      model::shard_axes(parameter.partition, parameter.tensor.sizes().vec(), ranks, model.config(),
                        kCheckpointVersion);
  libtorch::throw_if_error(axes.status());
  if (axes->partition_axis < 0) return whole;
  const int64_t share = axes->sizes[static_cast<size_t>(axes->partition_axis)] / ranks;
  return whole.view(axes->sizes)
      .narrow(axes->partition_axis, part.tensor_rank_of(parameter.is_expert) * share, share)
      .reshape(parameter.tensor.sizes());
}

}  // namespace

Status initialise_weights(GptModel& model, uint64_t seed) {
  return libtorch::torch_guard([&] {
    const c10::NoGradGuard without_gradients;
    for (const GptParameter& parameter : model.parameters()) {
      at::Tensor target = parameter.tensor.detach();
      if (parameter.name.ends_with(".router.bias") || parameter.name.ends_with(".softmax_offset")) {
        target.copy_(own_part(drawn_matrix(parameter, model, seed), parameter, model));
      } else if (parameter.name.ends_with(".bias")) {
        target.zero_();
      } else if (target.dim() == 1) {
        target.fill_(model.options().apply_layernorm_1p ? 0 : 1);
      } else {
        target.copy_(own_part(drawn_matrix(parameter, model, seed), parameter, model));
      }
    }
    return Status();
  });
}

}  // namespace meg::nn
