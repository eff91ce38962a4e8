#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "libmeg/checkpoint/container/pickle/pickle_graph.h"
#include "libmeg/checkpoint/container/torch_file/torch_file.h"

namespace meg::checkpoint {

/// What a persistent id names: a storage, or a window of it in legacy files.
struct StorageWindow {
  int storage = 0;  ///< Index into TorchStorages::storages.
  DType dtype = DType::kUint8;
  bool is_untyped = false;  ///< It holds bytes whose dtype the tensor states.
  uint64_t first_byte = 0;
  uint64_t bytes = 0;
};

/// The storages that the persistent ids of a pickle name, each once, in the order in which they are
/// first named.
struct TorchStorages {
  std::vector<TorchStorage> storages;  ///< As declared; where they lie is not known here.
  std::vector<bool> is_untyped;        ///< For each storage.
  std::unordered_map<PickleId, StorageWindow> windows;  ///< Keyed by the kPersistent node.
};

/// kCorruption if an id is not a tuple ('storage', class, key, location, elements) of the right
/// types or contradicts another of the same key; kUnsupported for unknown classes.
Result<TorchStorages> find_torch_storages(const PickleGraph& graph, const std::string& name);

}  // namespace meg::checkpoint
