#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "libmeg/checkpoint/container/pickle/pickle_graph.h"
#include "libmeg/checkpoint/container/torch_file/tensor_view.h"
#include "libmeg/checkpoint/container/torch_file/torch_file.h"

namespace meg::checkpoint {

/// The tensors and storages that a pickle of torch.save names.
struct TorchTensors {
  std::vector<TorchStorage> storages;  ///< As declared; where they lie is not known here.
  std::unordered_map<PickleId, TensorView> views;
  std::vector<PickleId> nodes;  ///< See TorchFile::tensor_nodes.
};

/// Recognises torch's own rebuild functions by their exact names and checks each call's arguments;
/// calls of anything else stay what they are. Every view lies inside its storage as declared.
/// `name` starts every error.
Result<TorchTensors> find_torch_tensors(const PickleGraph& graph, const std::string& name);

}  // namespace meg::checkpoint
