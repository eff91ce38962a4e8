#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/checkpoint/container/torch_file/torch_file.h"
#include "libmeg/checkpoint/state/tensor_source.h"

namespace meg::checkpoint {

/// A tensor of a Hugging Face folder.
struct HuggingFaceWeight {
  std::vector<int64_t> shape;
  std::shared_ptr<const TensorSource> source;  ///< Row-major.
  std::string file;                            ///< Path of the file that holds it.
};

using HuggingFaceWeights = std::map<std::string, HuggingFaceWeight, std::less<>>;

/// Opens the weights of a folder by metadata alone: model.safetensors or pytorch_model.bin, or
/// either in several files with an index. kNotFound if there are none, or a file of the index is
/// missing; kCorruption if several of these exist side by side, a file is damaged, or an index and
/// its files name different tensors.
Result<HuggingFaceWeights> open_huggingface_weights(const std::string& folder);

/// Opens one safetensors file as the file of torch.save that holds the same dict of tensors.
Result<TorchFile> open_safetensors_as_torch_file(const std::string& path);

}  // namespace meg::checkpoint
