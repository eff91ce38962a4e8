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
  /// When a manifest is made, tables are digested up to this row, so that the digests hold for any
  /// padding. Without it, a table gets a digest for every make_vocab_size_divisible_by rows,
  /// because padded tables have a multiple of that. When a manifest is checked, rows from this one
  /// on are not compared.
  std::optional<int64_t> vocab_size = {};
  bool include_optimizer = true;
  DigestOptions digest = {};
};

/// Digests every parameter and kind of state. kCorruption if a file is damaged (unless
/// digest.check_crcs is false); kInvalidArgument for a vocabulary larger than the table;
/// kUnsupported for a distributed optimizer that should be included.
Result<Manifest> make_manifest(const MegatronCheckpoint& checkpoint,
                               const ManifestOptions& options);

struct ManifestReport {
  int64_t tensors = 0;  ///< Tensors that were compared.
  /// Tensors that are "missing", "extra" or "changed": this word is the check, and the tensor the
  /// subject.
  std::vector<Problem> problems;
  std::vector<std::string> notes;

  bool ok() const { return problems.empty(); }
};

/// Digests a checkpoint of any layout and compares it with a manifest. float32 tensors count as
/// equal to 16-bit ones of the manifest if they hold the same values. Errors as make_manifest.
Result<ManifestReport> check_manifest(const MegatronCheckpoint& checkpoint,
                                      const Manifest& manifest, const ManifestOptions& options);

}  // namespace meg::checkpoint
