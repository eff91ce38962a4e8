#include "libmeg/nn/load_weights.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "libmeg/checkpoint/training/read_training_tensors.h"
#include "libmeg/libtorch/torch_guard.h"

namespace meg::nn {
namespace {

using ParametersByName = std::unordered_map<std::string_view, const checkpoint::LogicalParameter*>;

DType dtype_of(const at::Tensor& tensor) {
  if (tensor.scalar_type() == at::kHalf) return DType::kFloat16;
  return tensor.scalar_type() == at::kBFloat16 ? DType::kBFloat16 : DType::kFloat32;
}

/// The parameters of a checkpoint by name, the tied copy as what it is a copy of.
ParametersByName by_name(const checkpoint::MegatronCheckpoint& checkpoint) {
  ParametersByName found;
  for (const checkpoint::LogicalParameter& parameter : checkpoint.parameters()) {
    found.emplace(parameter.name, &parameter);
    if (parameter.placement == model::Placement::kEmbedding &&
        parameter.partition == model::Partition::kVocabulary) {
      found.emplace(model::kTiedCopyName, &parameter);
    }
  }
  return found;
}

/// Whole models must have a place for every parameter.
Status check_none_left(const checkpoint::MegatronCheckpoint& checkpoint, const GptModel& model) {
  const model::ParallelSizes& sizes = model.part().sizes;
  if (sizes.pipeline_model_parallel_size * sizes.virtual_pipeline_model_parallel_size *
          sizes.expert_model_parallel_size !=
      1) {
    return Status();
  }
  std::unordered_set<std::string_view> known;
  for (const GptParameter& parameter : model.parameters()) known.insert(parameter.name);
  for (const ExpertBias& bias : model.expert_biases()) known.insert(bias.name);
  for (const checkpoint::LogicalParameter& parameter : checkpoint.parameters()) {
    if (known.contains(parameter.name)) continue;
    return make_error(StatusCode::kInvalidArgument,
                      "{}: the checkpoint has this parameter, the model does not", parameter.name);
  }
  return Status();
}

/// Rows of the vocabulary that pad it may be left out, but no others. rows: of all ranks.
Status check_rows(const checkpoint::LogicalParameter& parameter, int64_t rows,
                  const LoadWeightsOptions& options) {
  if (parameter.partition != model::Partition::kVocabulary) return Status();
  const int64_t needed = options.true_vocab_size.value_or(parameter.shape[0]);
  if (rows >= parameter.shape[0] || rows >= needed) return Status();
  return make_error(StatusCode::kInvalidArgument,
                    "{}: rows of the vocabulary: expected at least {}, found space for {}",
                    parameter.name, needed, rows);
}

/// Reads weights, many at once, in place or by way of the CPU.
class Loading {
 public:
  Loading(const checkpoint::MegatronCheckpoint& checkpoint, const ModelPart& part)
      : checkpoint_(checkpoint),
        options_{
            .tensor_model_parallel_size = part.sizes.tensor_model_parallel_size,
            .tensor_rank = part.tensor_rank,
            .of_experts = checkpoint::TensorParallelPlace{.rank = part.tensor_rank_of(true),
                                                          .size = part.sizes.expert_tensor_size()},
            .use_masters = false} {}

  Status add(const std::string& name, const at::Tensor& tensor) {
    const at::Tensor target = tensor.detach();
    const bool is_direct = target.is_cpu() && target.is_contiguous();
    const at::Tensor staged =
        is_direct ? target : at::empty(target.sizes(), target.options().device(at::kCPU));
    wanted_.push_back(
        {.name = name,
         .kind = "weight",
         .dtype = dtype_of(staged),
         .shape = staged.sizes().vec(),
         .bytes = {static_cast<std::byte*>(staged.mutable_data_ptr()), staged.nbytes()}});
    if (is_direct) return Status();
    staged_.emplace_back(target, staged);
    staged_bytes_ += staged.nbytes();
    // Many tensors a read, so that the threads of the transfer have work; not all of them, so that
    // a model which fits its GPU need not fit the host's memory.
    return staged_bytes_ < kBytesAtOnce ? Status() : read();
  }

  /// What is not read yet.
  Status read() {
    MEG_RETURN_IF_ERROR(checkpoint::read_training_tensors(checkpoint_, wanted_, options_));
    for (auto& [target, staged] : staged_) target.copy_(staged);
    wanted_.clear();
    staged_.clear();
    staged_bytes_ = 0;
    return Status();
  }

 private:
  /// Memory of tensors that are on their way to a GPU.
  static constexpr size_t kBytesAtOnce = size_t{256} << 20;

  const checkpoint::MegatronCheckpoint& checkpoint_;
  checkpoint::TrainingTensorOptions options_;
  std::vector<checkpoint::TrainingTensorTarget> wanted_;
  std::vector<std::pair<at::Tensor, at::Tensor>> staged_;  // target, and what is read
  size_t staged_bytes_ = 0;
};

}  // namespace

Status load_weights(const checkpoint::MegatronCheckpoint& checkpoint, GptModel& model,
                    const LoadWeightsOptions& options) {
  MEG_RETURN_IF_ERROR(check_none_left(checkpoint, model));
  const ParametersByName found = by_name(checkpoint);
  return libtorch::torch_guard([&]() -> Status {
    const c10::NoGradGuard without_gradients;
    Loading loading(checkpoint, model.part());
    const int64_t ranks = model.part().sizes.tensor_model_parallel_size;
    const auto add = [&](const std::string& name, const at::Tensor& tensor) -> Status {
      const auto source = found.find(name);
      if (source == found.end()) {
        return make_error(StatusCode::kInvalidArgument,
                          "{}: the model has this parameter, the checkpoint does not", name);
      }
      MEG_RETURN_IF_ERROR(check_rows(*source->second, tensor.size(0) * ranks, options));
      return loading.add(name, tensor);
    };
    for (const GptParameter& parameter : model.parameters()) {
      MEG_RETURN_IF_ERROR(add(parameter.name, parameter.tensor));
    }
    for (const ExpertBias& bias : model.expert_biases()) {
      MEG_RETURN_IF_ERROR(add(bias.name, bias.tensor));
    }
    return loading.read();
  });
}

}  // namespace meg::nn
