#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/dtype.h"
#include "libmeg/base/result.h"

namespace meg::checkpoint {

/// Beside the rank folders of a checkpoint; Megatron looks at mp_rank_* alone.
inline constexpr std::string_view kManifestName = "libmeg-manifest.json";

/// The digests of one logical tensor.
struct ManifestTensor {
  std::string name;  ///< "decoder.layers.3.mlp.linear_fc1.weight"
  std::string kind;  ///< "weight", "exp_avg" ...
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape;  ///< Merged; of a table the rows that were digested.
  int64_t block_rows = 0;      ///< A table's rows to a digest; 0: one digest in all.
  std::vector<std::string> digests = {};
};

/// Digests of a checkpoint's tensors that hold in every layout.
struct Manifest {
  std::optional<int64_t> iteration;
  std::optional<int64_t> vocab_size;  ///< Tables were digested up to here.
  std::vector<ManifestTensor> tensors;
};

/// Writes it as JSON, by rename.
Status write_manifest(const std::string& path, const Manifest& manifest);

/// kNotFound where there is none, kCorruption where it is no manifest, kUnsupported for a newer
/// schema; messages start with the path.
Result<Manifest> read_manifest(const std::string& path);

}  // namespace meg::checkpoint
