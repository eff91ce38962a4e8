#pragma once

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "libmeg/checkpoint/dialects/mp_rank/megatron_checkpoint.h"
#include "libmeg/nn/gpt_model.h"
#include "libmeg/nn/load_weights.h"
#include "libmeg/numpy/npy.h"
#include "tests/shared_data.h"

namespace meg::test {

inline Result<checkpoint::MegatronCheckpoint> open_checkpoint(const std::string& path) {
  MEG_ASSIGN_OR_RETURN(const checkpoint::CheckpointFolder folder,
                       checkpoint::find_checkpoint(path));
  checkpoint::OpenCheckpointOptions options;
  options.ignore_optimizer = true;
  // The checkpoints that have no args are one model.
  options.fallback = [](std::string_view name) -> std::optional<megatron::FieldValue> {
    if (name == "num_layers" || name == "num_attention_heads") return int64_t{4};
    if (name == "hidden_size") return int64_t{32};
    if (name == "max_position_embeddings") return int64_t{64};
    return std::nullopt;
  };
  return checkpoint::MegatronCheckpoint::open(folder, options);
}

/// The model of a checkpoint with its weights in fp32, computing as its args say; `change` may
/// change that. Dropout off, evaluation mode.
inline Result<nn::GptModel> model_of(
    const checkpoint::MegatronCheckpoint& checkpoint,
    const std::function<void(model::GptConfig&, nn::GptOptions&)>& change = nullptr) {
  at::set_num_threads(1);  // more cost time on tensors this small
  // Of lists, those that routers read.
  const auto lookup = [&](std::string_view name) {
    return name.starts_with("moe_") ? checkpoint.described_arg(name) : checkpoint.arg(name);
  };
  MEG_ASSIGN_OR_RETURN(nn::GptOptions options, nn::GptOptions::from_fields(lookup));
  model::GptConfig config = checkpoint.config();
  if (config.padded_vocab_size == 0) {
    config.padded_vocab_size = checkpoint.parameters().front().shape[0];
  }
  options.params_dtype = at::kFloat;
  options.hidden_dropout = options.attention_dropout = 0;
  options.family = checkpoint.family();
  if (change) change(config, options);
  MEG_ASSIGN_OR_RETURN(nn::GptModel model, nn::GptModel::create(config, options));
  MEG_RETURN_IF_ERROR(nn::load_weights(checkpoint, model));
  model.set_training(false);
  return model;
}

/// A .npy file as a tensor of its own.
template <class T>
at::Tensor tensor_of(const numpy::NpyFile& file) {
  const Result<std::span<const T>> values = file.values<T>();
  if (!values.has_value()) {
    ADD_FAILURE() << values.error().message();
    return at::Tensor();
  }
  return at::from_blob(const_cast<T*>(values->data()), file.shape(),
                       at::CppTypeToScalarType<T>::value)
      .clone();
}

template <class T>
at::Tensor read_npy(const std::string& path) {
  const Result<numpy::NpyFile> file = numpy::NpyFile::open(path);
  if (!file.has_value()) {
    ADD_FAILURE() << file.error().message();
    return at::Tensor();
  }
  return tensor_of<T>(*file);
}

/// The largest absolute difference of two tensors of one shape.
inline double max_difference(const at::Tensor& a, const at::Tensor& b) {
  EXPECT_EQ(a.sizes(), b.sizes());
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

}  // namespace meg::test
