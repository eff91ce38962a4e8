#pragma once

#include <memory>
#include <string>
#include <vector>

#include "libmeg/checkpoint/dialects/huggingface/huggingface_config.h"
#include "libmeg/checkpoint/state/tensor_source.h"
#include "libmeg/model/gpt_config.h"

namespace meg::checkpoint {

/// A parameter of Megatron's, merged and without padding rows, out of Hugging Face's tensors.
struct HuggingFaceParameter {
  std::string name;  ///< Canonical, with the layer's number.
  std::shared_ptr<const TensorSource> source;
};

/// A Hugging Face folder as a model of Megatron's, opened by metadata alone.
struct HuggingFaceCheckpoint {
  std::string folder;
  HuggingFaceConfig config;
  model::GptConfig model;         ///< padded_vocab_size: the rows that the tables have.
  DType dtype = DType::kFloat32;  ///< Of most elements.
  std::vector<HuggingFaceParameter> parameters;  ///< In the order of hugging_face_tensors().
  uint64_t weight_file_bytes = 0;                ///< Of all files that hold tensors.
  std::vector<std::string> notes;
};

/// Errors: those of read_huggingface_config and open_huggingface_weights; kCorruption where a
/// tensor is missing, has another shape, or a tied output layer differs from
/// the embedding; kUnsupported for tensors that Megatron has no parameter for, by name.
Result<HuggingFaceCheckpoint> open_huggingface_checkpoint(const std::string& folder);

}  // namespace meg::checkpoint
