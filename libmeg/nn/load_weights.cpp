#include "libmeg/nn/load_weights.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <string_view>
#include <unordered_map>
#include <unordered_set>

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
  if (sizes.pipeline_model_parallel_size * sizes.virtual_pipeline_model_parallel_size != 1) {
    return Status();
  }
  std::unordered_set<std::string_view> known;
  for (const GptParameter& parameter : model.parameters()) known.insert(parameter.name);
  for (const checkpoint::LogicalParameter& parameter : checkpoint.parameters()) {
    if (known.contains(parameter.name)) continue;
    return make_error(StatusCode::kInvalidArgument,
                      "{}: the checkpoint has this parameter, the model has not", parameter.name);
  }
  return Status();
}

/// Rows of the vocabulary that pad it may be left out, but no others.
Status check_rows(const checkpoint::LogicalParameter& parameter, int64_t rows,
                  const LoadWeightsOptions& options) {
  if (parameter.partition != model::Partition::kVocabulary) return Status();
  const int64_t needed = options.true_vocab_size.value_or(parameter.shape[0]);
  if (rows >= parameter.shape[0] || rows >= needed) return Status();
  return make_error(StatusCode::kInvalidArgument,
                    "{}: rows of the vocabulary: expected at least {}, found room for {}",
                    parameter.name, needed, rows);
}

Status load(const checkpoint::MegatronCheckpoint& checkpoint, const GptParameter& parameter) {
  const at::Tensor target = parameter.tensor.detach();
  const bool is_direct = target.is_cpu() && target.is_contiguous();
  const at::Tensor staged =
      is_direct ? target : at::empty(target.sizes(), target.options().device(at::kCPU));
  const checkpoint::TrainingTensorTarget wanted = {
      .name = parameter.name,
      .kind = "weight",
      .dtype = dtype_of(staged),
      .shape = staged.sizes().vec(),
      .bytes = {static_cast<std::byte*>(staged.mutable_data_ptr()), staged.nbytes()}};
  checkpoint::TrainingTensorOptions weights_alone;
  weights_alone.use_masters = false;
  MEG_RETURN_IF_ERROR(checkpoint::read_training_tensors(checkpoint, {&wanted, 1}, weights_alone));
  if (!is_direct) target.copy_(staged);
  return Status();
}

}  // namespace

Status load_weights(const checkpoint::MegatronCheckpoint& checkpoint, GptModel& model,
                    const LoadWeightsOptions& options) {
  MEG_RETURN_IF_ERROR(check_none_left(checkpoint, model));
  for (const checkpoint::RankFile& rank : checkpoint.files()) {
    MEG_RETURN_IF_ERROR(rank.file->check_metadata_crcs());
  }
  const ParametersByName found = by_name(checkpoint);
  return libtorch::torch_guard([&]() -> Status {
    const c10::NoGradGuard without_gradients;
    for (const GptParameter& parameter : model.parameters()) {
      const auto source = found.find(parameter.name);
      if (source == found.end()) {
        return make_error(StatusCode::kInvalidArgument,
                          "{}: the model has this parameter, the checkpoint has not",
                          parameter.name);
      }
      MEG_RETURN_IF_ERROR(check_rows(*source->second, parameter.tensor.size(0), options));
      MEG_RETURN_IF_ERROR(load(checkpoint, parameter));
    }
    return Status();
  });
}

}  // namespace meg::nn
