#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "libmeg/checkpoint/verify/internal/float_scan.h"
#include "libmeg/checkpoint/verify/internal/tensor_scan.h"

namespace meg::checkpoint {

/// The findings in a range of a tensor and, once all are appended, in the whole tensor.
struct TensorFinding {
  FloatScan floats;
  std::string not_finite_text, negative_text;  ///< The first elements of these kinds.
  uint32_t crc = 0;

  /// Adds the range that follows.
  void append(const TensorFinding& next, uint64_t bytes_of_next);
};

/// A place where two tensors are not related as they should be.
struct RelationFinding {
  int64_t count = 0;
  int64_t first = -1;
  std::string expected, found;

  void append(const RelationFinding& next);
};

/// Findings in a range of a group, in the order of its tensors and relations. If status is not ok,
/// they are incomplete.
struct GroupFindings {
  std::vector<TensorFinding> tensors;
  std::vector<RelationFinding> relations;
  Status status;

  GroupFindings() = default;

  explicit GroupFindings(const ScanGroup& group)
      : tensors(group.tensors.size()), relations(group.relations.size()) {}
};

/// A storage that no tensor covers.
struct StorageFinding {
  std::shared_ptr<const TorchFile> file;
  int storage = 0;
  uint32_t crc = 0;
  Status status;
};

/// Whether a tensor consists of all bytes of its storage in order, so that its CRC is the
/// storage's.
bool covers_storage(const ScannedTensor& tensor);

/// Compares two runs of one dtype; two NaNs are equal whatever their bits. first_element: the place
/// of the runs' first element.
RelationFinding compare_runs(DType dtype, std::span<const std::byte> expected,
                             std::span<const std::byte> found, int64_t first_element);

/// Turns findings into problems. findings[i] belongs to groups[i].
std::vector<Problem> scan_problems(std::span<const ScanGroup> groups,
                                   std::span<const GroupFindings> findings,
                                   std::span<const StorageFinding> storages,
                                   const TensorScanOptions& options);

}  // namespace meg::checkpoint
