#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/dtype.h"
#include "libmeg/base/result.h"

namespace meg::checkpoint {

/// Name of the manifest beside the rank folders of a checkpoint; Megatron only reads mp_rank_*.
inline constexpr std::string_view kManifestName = "libmeg-manifest.json";

/// The digests of one logical tensor.
struct ManifestTensor {
  std::string name;  ///< "decoder.layers.3.mlp.linear_fc1.weight"
  std::string kind;  ///< "weight", "exp_avg" ...
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape;  ///< Merged; for a table, only the rows that were digested.
  int64_t block_rows = 0;      ///< Rows of a table per digest; 0: a single digest.
  std::vector<std::string> digests = {};
};

/// Digests of a checkpoint's tensors, which are the same in every layout.
struct Manifest {
  std::optional<int64_t> iteration;
  std::optional<int64_t> vocab_size;  ///< Tables were digested up to this row.
  std::vector<ManifestTensor> tensors;
};

/// Writes a manifest as JSON, by rename.
Status write_manifest(const std::string& path, const Manifest& manifest);

/// Reads a manifest. kNotFound if there is none, kCorruption if the file is not a manifest,
/// kUnsupported for a newer schema; messages start with the path.
Result<Manifest> read_manifest(const std::string& path);

}  // namespace meg::checkpoint
