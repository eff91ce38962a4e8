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
  at::Tensor tensor;  ///< A leaf that requires its gradient; of this rank's shape.
  model::Partition partition = model::Partition::kReplicated;
  bool weight_decay = false;  ///< has_weight_decay
};

/// The parameters of a part of a model, in the order of a family's named_parameters(). Modules hold
/// the same tensors: what is done to one in place is done to the model.
class ParameterStore {
 public:
  /// Allocates them; their values are whatever lies there. Error where the configuration has no
  /// such part, kResourceExhausted where memory does not suffice.
  static Result<ParameterStore> create(const model::GptConfig& config, const GptOptions& options,
                                       const ModelPart& part);

  std::span<const GptParameter> all() const { return parameters_; }

  /// The ranks that share them with this one.
  const TensorParallel& tensor_parallel() const { return tensor_parallel_; }

  /// The tensor of a canonical name, with {} for `layer`'s number; undefined where there is none.
  at::Tensor find(std::string_view canonical, int64_t layer = 0) const;

  /// How many parameters come up to the last one whose name begins with `prefix`, as find() takes
  /// names; 0: there is none.
  size_t end_of(std::string_view prefix, int64_t layer = 0) const;

 private:
  TensorParallel tensor_parallel_;
  std::vector<GptParameter> parameters_;
  std::unordered_map<std::string, size_t> places_;  ///< By name.
};

}  // namespace meg::nn
