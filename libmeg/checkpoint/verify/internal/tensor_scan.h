#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "libmeg/base/progress.h"
#include "libmeg/base/result.h"
#include "libmeg/checkpoint/container/torch_file/tensor_view.h"
#include "libmeg/checkpoint/container/torch_file/torch_file.h"
#include "libmeg/checkpoint/verify/checkpoint_problem.h"

namespace meg::checkpoint {

/// A tensor of a rank's file, read once from its first element to its last.
struct ScannedTensor {
  std::shared_ptr<const TorchFile> file;
  TensorView view;
  std::string name;           ///< For problems.
  bool non_negative = false;  ///< Elements below zero are problems.
};

/// The relation that the elements of two tensors of a group must have.
struct TensorRelation {
  enum class Kind : uint8_t {
    kEqual,    ///< The same bits; the tensors have one dtype.
    kRounded,  ///< `second` is `first` (float32), rounded to nearest even.
  };
  Kind kind = Kind::kEqual;
  size_t first = 0, second = 0;  ///< Indices of tensors; a problem is reported at `second`.
  std::string_view check = CheckpointCheck::kReplicas;
  std::string likely_cause;
};

/// Tensors of equal shape that are read side by side.
struct ScanGroup {
  std::vector<ScannedTensor> tensors;
  std::vector<TensorRelation> relations;
};

struct TensorScanOptions {
  bool check_crcs = true;
  /// Storages whose CRC-32 the caller has already compared.
  std::set<std::pair<const TorchFile*, int>> known_storages = {};
  bool check_finite = true;
  int workers = 1;
  ProgressCallback progress = {};  ///< Bytes of tensors and storages read.
};

/// Reads every tensor once, piece by piece on all workers, and in the same pass looks for values
/// that are not finite or negative, compares related tensors and sums the storages' CRC-32s;
/// storages of `files` that no tensor covers are read for their CRC alone. Memory: about 2 MiB per
/// worker. Problems are in the order of groups and tensors, then files; elements in a damaged
/// storage are not judged further. The error is kCancelled or kResourceExhausted.
Result<std::vector<Problem>> scan_tensors(std::span<const ScanGroup> groups,
                                          std::span<const std::shared_ptr<const TorchFile>> files,
                                          const TensorScanOptions& options);

}  // namespace meg::checkpoint
