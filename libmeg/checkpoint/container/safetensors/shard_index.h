#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/result.h"

namespace meg::checkpoint {

/// Which file of a folder holds which tensor: model.safetensors.index.json, or
/// pytorch_model.bin.index.json.
struct ShardIndex {
  std::map<std::string, std::string, std::less<>>
      files;  ///< File names, by the name of the tensor.

  /// The files' names, each once, ascending.
  std::vector<std::string> file_names() const;
};

/// Reads `weight_map` and nothing else, because the total sizes in an index are often wrong.
/// kCorruption if it is not JSON, a name occurs twice, or a file's name is not that of a file in
/// the index's own folder (`../`, `/`); `name`, a path, starts errors.
Result<ShardIndex> parse_shard_index(std::string_view json, const std::string& name);

/// The text of an index. total_bytes: of all tensors; parameter_count: elements of all of them.
std::string shard_index_json(const ShardIndex& index, uint64_t total_bytes,
                             uint64_t parameter_count);

/// Distributes tensors of these sizes over files of up to max_bytes, in their order; returns the
/// file of each. A larger tensor gets a file of its own.
std::vector<size_t> split_into_shards(std::span<const uint64_t> bytes, uint64_t max_bytes);

/// "model.safetensors" where there is one shard, else "model-00002-of-00005.safetensors" for the
/// second of five (shard: from 0).
std::string shard_file_name(size_t shard, size_t shards);

}  // namespace meg::checkpoint
