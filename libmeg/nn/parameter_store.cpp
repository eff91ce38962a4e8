#include "libmeg/nn/parameter_store.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "libmeg/libtorch/torch_guard.h"
#include "libmeg/model/parameter_count.h"

namespace meg::nn {

Result<ParameterStore> ParameterStore::create(const model::GptConfig& config,
                                              const GptOptions& options, const ModelPart& part) {
  MEG_ASSIGN_OR_RETURN(const model::ParameterTable table, model::ParameterTable::gpt());
  MEG_ASSIGN_OR_RETURN(
      std::vector<model::RankParameter> rows,
      model::rank_parameters(config, part.sizes, part.pipeline_rank, options.family, table,
                             part.expert_parallel.model_rank()));
  ParameterStore store;
  store.tensor_parallel_ = part.tensor_parallel;
  store.expert_parallel_ = part.expert_parallel;
  MEG_RETURN_IF_ERROR(libtorch::torch_guard([&] {
    const auto tensor_options = at::dtype(options.params_dtype).device(options.device);
    for (model::RankParameter& row : rows) {
      if (row.chunk != part.chunk) continue;
      if (row.is_buffer) {
        // In fp32 whatever the parameters are: steps are too small for 16 bits.
        const auto zeros = [&] { return at::zeros(row.shape, tensor_options.dtype(at::kFloat)); };
        store.expert_biases_.push_back(
            {.name = std::move(row.name), .tensor = zeros(), .tokens_per_expert = zeros()});
        continue;
      }
      GptParameter parameter;
      parameter.tensor = at::empty(row.shape, tensor_options).requires_grad_(true);
      parameter.partition = row.partition;
      parameter.weight_decay = model::has_weight_decay(row.name, row.shape.size());
      parameter.is_expert = row.is_expert;
      parameter.name = std::move(row.name);
      store.places_.emplace(parameter.name, store.parameters_.size());
      store.parameters_.push_back(std::move(parameter));
    }
    return Status();
  }));
  return store;
}

at::Tensor ParameterStore::find(std::string_view canonical, int64_t layer) const {
  const auto place = places_.find(model::with_layer(canonical, layer));
  return place == places_.end() ? at::Tensor() : parameters_[place->second].tensor;
}

const ExpertBias* ParameterStore::find_expert_bias(int64_t layer) const {
  const std::string name = model::with_layer("decoder.layers.{}.mlp.router.expert_bias", layer);
  const auto found = std::ranges::find(expert_biases_, name, &ExpertBias::name);
  return found == expert_biases_.end() ? nullptr : &*found;
}

size_t ParameterStore::end_of(std::string_view prefix, int64_t layer) const {
  const std::string begin = model::with_layer(prefix, layer);
  size_t end = parameters_.size();
  while (end > 0 && !parameters_[end - 1].name.starts_with(begin)) --end;
  return end;
}

}  // namespace meg::nn
