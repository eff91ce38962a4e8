#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/model/gpt_config.h"
#include "libmeg/model/parameter_table.h"
#include "libmeg/nn/gpt_options.h"

namespace meg::nn {

/// A parameter that this process trains.
struct GptParameter {
  std::string name;   ///< Canonical, with the layer's number in the whole model.
  at::Tensor tensor;  ///< A leaf that requires a gradient, with this rank's shape.
  model::Partition partition = model::Partition::kReplicated;
  bool weight_decay = false;  ///< has_weight_decay
  bool is_expert = false;     ///< Whether it is one of an expert.
};

/// The bias by which a router chooses experts (moe_router_enable_expert_bias).
struct ExpertBias {
  std::string name;              ///< Canonical, with the layer's number in the whole model.
  at::Tensor tensor;             ///< [experts] fp32, 0 at first; saved and loaded.
  at::Tensor tokens_per_expert;  ///< [experts] fp32: of the passes with gradients since it was 0.
};

/// The parameters of a part of a model, in the order of a family's named_parameters(). Modules hold
/// the same tensors, so changing one in place changes the model.
class ParameterStore {
 public:
  /// Allocates them, uninitialised. Fails if the configuration has no such part; kResourceExhausted
  /// if memory is insufficient.
  static Result<ParameterStore> create(const model::GptConfig& config, const GptOptions& options,
                                       const ModelPart& part);

  std::span<const GptParameter> all() const { return parameters_; }

  std::span<const ExpertBias> expert_biases() const { return expert_biases_; }

  /// The ranks over which the parameters are divided.
  const TensorParallel& tensor_parallel() const { return tensor_parallel_; }

  /// The ranks that share experts.
  const ExpertParallel& expert_parallel() const { return expert_parallel_; }

  /// The tensor of a canonical name, with {} for `layer`'s number; undefined if there is none.
  at::Tensor find(std::string_view canonical, int64_t layer = 0) const;

  /// The bias of a layer's router; nullptr if it has none.
  const ExpertBias* find_expert_bias(int64_t layer) const;

  /// The number of parameters up to and including the last one whose name begins with `prefix`,
  /// written as for find(); 0 if there is none.
  size_t end_of(std::string_view prefix, int64_t layer = 0) const;

 private:
  TensorParallel tensor_parallel_;
  ExpertParallel expert_parallel_;
  std::vector<GptParameter> parameters_;
  std::vector<ExpertBias> expert_biases_;
  std::unordered_map<std::string, size_t> places_;  ///< Indices by name.
};

}  // namespace meg::nn
