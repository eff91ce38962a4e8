#include "libmeg/nn/load_weights.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "libmeg/core/float_convert.h"
#include "libmeg/parallel/torch_guard.h"

namespace meg::nn {
namespace {

/// Elements that are converted at once.
constexpr int64_t kBlock = 1 << 20;

Result<DType> dtype_of_tensor(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return DType::kFloat32;
    case at::kHalf:
      return DType::kFloat16;
    case at::kBFloat16:
      return DType::kBFloat16;
    default:
      return make_error(StatusCode::kUnsupported, "expected a tensor of floats, found {}",
                        c10::toString(tensor.scalar_type()));
  }
}

/// The first `count` elements of a logical tensor as `dtype`.
Status read_elements(const MegatronCheckpoint& checkpoint, const LogicalParameter& parameter,
                     const LogicalTensor& source, DType dtype, std::byte* into, int64_t count) {
  const auto bytes = [&](int64_t elements, DType of) {
    return static_cast<size_t>(elements * dtype_size(of));
  };
  if (source.dtype == dtype) {
    return read_merged(checkpoint, parameter, source, 0, {into, bytes(count, dtype)});
  }
  std::vector<std::byte> block(bytes(std::min(kBlock, count), source.dtype));
  for (int64_t first = 0; first < count; first += kBlock) {
    const int64_t taken = std::min(kBlock, count - first);
    const std::span<std::byte> read(block.data(), bytes(taken, source.dtype));
    MEG_RETURN_IF_ERROR(read_merged(checkpoint, parameter, source, first, read));
    MEG_RETURN_IF_ERROR(convert_floats(source.dtype, read, dtype,
                                       {into + bytes(first, dtype), bytes(taken, dtype)}));
  }
  return Status();
}

/// The rows of the source that the target takes.
Result<int64_t> rows_to_read(const LogicalParameter& parameter, at::IntArrayRef sizes,
                             const LoadWeightsOptions& options) {
  std::vector<int64_t> expected = parameter.shape;
  const bool is_vocabulary = parameter.partition == Partition::kVocabulary;
  if (is_vocabulary && !sizes.empty()) expected[0] = sizes[0];
  if (!sizes.equals(expected)) {
    return make_error(StatusCode::kInvalidArgument, "shape: expected {}, found {}",
                      shape_text(sizes.vec()), shape_text(parameter.shape));
  }
  const int64_t rows = std::min(parameter.shape[0], sizes[0]);
  if (rows < parameter.shape[0] && options.true_vocab_size.value_or(parameter.shape[0]) > rows) {
    return make_error(StatusCode::kInvalidArgument,
                      "rows of the vocabulary: expected at least {}, found room for {}",
                      options.true_vocab_size.value_or(parameter.shape[0]), rows);
  }
  return rows;
}

/// The parameters of a checkpoint by name, the tied copy as what it is a copy of.
std::unordered_map<std::string, const LogicalParameter*> by_name(
    const MegatronCheckpoint& checkpoint) {
  std::unordered_map<std::string, const LogicalParameter*> found;
  for (const LogicalParameter& parameter : checkpoint.parameters()) {
    found.emplace(parameter.name, &parameter);
    if (parameter.placement == Placement::kEmbedding &&
        parameter.partition == Partition::kVocabulary) {
      found.emplace(kTiedCopyName, &parameter);
    }
  }
  return found;
}

/// Whole models must have a place for every parameter.
Status check_none_left(const MegatronCheckpoint& checkpoint, const GptModel& model) {
  const ParallelSizes& sizes = model.part().sizes;
  if (sizes.pipeline_model_parallel_size * sizes.virtual_pipeline_model_parallel_size != 1) {
    return Status();
  }
  if (checkpoint.parameters().size() == model.parameters().size()) return Status();
  std::unordered_map<std::string, bool> known;
  for (const GptParameter& parameter : model.parameters()) known[parameter.name] = true;
  for (const LogicalParameter& parameter : checkpoint.parameters()) {
    if (known.contains(parameter.name)) continue;
    return make_error(StatusCode::kInvalidArgument,
                      "{}: the checkpoint has this parameter, the model has not", parameter.name);
  }
  return Status();
}

}  // namespace

Status load_tensor(const MegatronCheckpoint& checkpoint, const LogicalParameter& parameter,
                   const LogicalTensor& source, const LoadWeightsOptions& options,
                   at::Tensor into) {
  return parallel::torch_guard([&]() -> Status {
    MEG_ASSIGN_OR_RETURN(const int64_t rows, rows_to_read(parameter, into.sizes(), options));
    MEG_ASSIGN_OR_RETURN(const DType dtype, dtype_of_tensor(into));
    const c10::NoGradGuard without_gradients;
    at::Tensor target = into.detach();
    const bool is_direct = target.is_cpu() && target.is_contiguous();
    const at::Tensor staged =
        is_direct ? target : at::empty(target.sizes(), target.options().device(at::kCPU));
    auto* bytes = static_cast<std::byte*>(staged.mutable_data_ptr());
    const int64_t row = staged.size(0) == 0 ? 0 : staged.numel() / staged.size(0);
    MEG_RETURN_IF_ERROR(read_elements(checkpoint, parameter, source, dtype, bytes, rows * row));
    if (rows > 0 && rows < staged.size(0)) {
      staged.narrow(0, rows, staged.size(0) - rows).copy_(staged.select(0, rows - 1));
    }
    if (!is_direct) target.copy_(staged);
    return Status();
  });
}

Status load_weights(const MegatronCheckpoint& checkpoint, GptModel& model,
                    const LoadWeightsOptions& options) {
  MEG_RETURN_IF_ERROR(check_none_left(checkpoint, model));
  const auto parameters = by_name(checkpoint);
  for (const GptParameter& parameter : model.parameters()) {
    const auto found = parameters.find(parameter.name);
    if (found == parameters.end()) {
      return make_error(StatusCode::kInvalidArgument,
                        "{}: the model has this parameter, the checkpoint has not", parameter.name);
    }
    const LogicalParameter& source = *found->second;
    MEG_RETURN_IF_ERROR(
        load_tensor(checkpoint, source, source.tensors.front(), options, parameter.tensor)
            .with_prefix(parameter.name));
  }
  return Status();
}

}  // namespace meg::nn
