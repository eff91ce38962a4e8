#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libmeg/base/problem.h"
#include "libmeg/checkpoint/dialects/mp_rank/megatron_checkpoint.h"
#include "libmeg/checkpoint/verify/logical_digest.h"
#include "libmeg/checkpoint/verify/manifest_file.h"

namespace meg::checkpoint {

struct ManifestOptions {
  /// When made: tables are digested up to here, and so hold whatever the padding becomes. Without
  /// it a table gets a digest for every make_vocab_size_divisible_by rows, since padded heights are
  /// multiples of that. When checked: rows from here on are not compared.
  std::optional<int64_t> vocab_size = {};
  bool include_optimizer = true;
  DigestOptions digest = {};
};

/// Digests every parameter and kind of state. kCorruption where a file is damaged (unless
/// digest.check_crcs is false); kInvalidArgument for a vocabulary larger than the table;
/// kUnsupported for a distributed optimizer that is to be included.
Result<Manifest> make_manifest(const MegatronCheckpoint& checkpoint,
                               const ManifestOptions& options);

struct ManifestReport {
  int64_t tensors = 0;  ///< That were compared.
  /// A tensor that is "missing", "extra" or "changed": that is the check, the tensor the subject.
  std::vector<Problem> problems;
  std::vector<std::string> notes;

  bool ok() const { return problems.empty(); }
};

/// Digests a checkpoint of any layout and compares. float32 tensors stand for the 16-bit ones of
/// the manifest as long as they hold the same values. Errors as make_manifest.
Result<ManifestReport> check_manifest(const MegatronCheckpoint& checkpoint,
                                      const Manifest& manifest, const ManifestOptions& options);

}  // namespace meg::checkpoint
