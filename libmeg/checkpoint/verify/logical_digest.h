#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libmeg/base/progress.h"
#include "libmeg/checkpoint/dialects/mp_rank/megatron_checkpoint.h"

namespace meg::checkpoint {

/// What is to be digested of a logical tensor.
struct DigestRequest {
  const LogicalParameter* parameter = nullptr;
  const LogicalTensor* tensor = nullptr;
  int64_t rows = 0;        ///< The first so many rows alone; 0: all.
  int64_t block_rows = 0;  ///< One digest for every so many rows; 0: one in all.
  /// float16 or bfloat16: digests the elements of a float32 tensor in that type, as long as that
  /// loses nothing.
  DType as_dtype = DType::kFloat32;
};

struct DigestOptions {
  bool check_crcs = true;
  int workers = 1;
  ProgressCallback progress = {};  ///< Bytes of tensors.
};

/// XXH3-128 digests of merged tensors, row-major, little-endian: the same in every layout. For each
/// request its digests in order; none where as_dtype would lose something. In the same pass the
/// archives' CRC-32s are compared; kCorruption names a file that is damaged anywhere.
Result<std::vector<std::vector<std::string>>> digest_tensors(
    const MegatronCheckpoint& checkpoint, const std::vector<DigestRequest>& requests,
    const DigestOptions& options);

}  // namespace meg::checkpoint
