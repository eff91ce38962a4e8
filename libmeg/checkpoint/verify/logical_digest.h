#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libmeg/base/progress.h"
#include "libmeg/checkpoint/dialects/mp_rank/megatron_checkpoint.h"

namespace meg::checkpoint {

/// Selects what to digest of a logical tensor.
struct DigestRequest {
  const LogicalParameter* parameter = nullptr;
  const LogicalTensor* tensor = nullptr;
  int64_t rows = 0;        ///< Digest only this many first rows; 0: all.
  int64_t block_rows = 0;  ///< Rows per digest; 0: a single digest.
  /// float16 or bfloat16: digests the elements of a float32 tensor in that dtype, provided that
  /// this loses nothing.
  DType as_dtype = DType::kFloat32;
};

struct DigestOptions {
  bool check_crcs = true;
  int workers = 1;
  ProgressCallback progress = {};  ///< Bytes of tensors.
};

/// XXH3-128 digests of merged tensors, row-major, little-endian: the same in every layout. Returns
/// the digests of each request in order, or none if as_dtype would lose something. Compares the
/// archives' CRC-32s in the same pass; kCorruption names a file that is damaged anywhere.
Result<std::vector<std::vector<std::string>>> digest_tensors(
    const MegatronCheckpoint& checkpoint, const std::vector<DigestRequest>& requests,
    const DigestOptions& options);

}  // namespace meg::checkpoint
