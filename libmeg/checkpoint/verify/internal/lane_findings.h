#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "libmeg/checkpoint/verify/internal/float_scan.h"
#include "libmeg/checkpoint/verify/internal/lane_scan.h"

namespace meg::checkpoint {

/// The findings in a stretch of a lane and, once all are appended, in the whole lane.
struct LaneFinding {
  FloatScan floats;
  std::string not_finite_text, negative_text;  ///< The first elements of these kinds.
  uint32_t crc = 0;

  /// Adds the stretch that follows.
  void append(const LaneFinding& next, uint64_t bytes_of_next);
};

/// A place where two lanes are not related as they should be.
struct RelationFinding {
  int64_t count = 0;
  int64_t first = -1;
  std::string expected, found;

  void append(const RelationFinding& next);
};

/// Findings in a stretch of a group, in the order of its lanes and relations. If status is not ok,
/// they are incomplete.
struct GroupFindings {
  std::vector<LaneFinding> lanes;
  std::vector<RelationFinding> relations;
  Status status;

  GroupFindings() = default;

  explicit GroupFindings(const LaneGroup& group)
      : lanes(group.lanes.size()), relations(group.relations.size()) {}
};

/// A storage that no lane covers.
struct StorageFinding {
  std::shared_ptr<const TorchFile> file;
  int storage = 0;
  uint32_t crc = 0;
  Status status;
};

/// Whether a lane consists of all bytes of its storage in order, so that its CRC is the storage's.
bool covers_storage(const Lane& lane);

/// Compares two runs of one dtype; two NaNs are equal whatever their bits. first_element: the place
/// of the runs' first element.
RelationFinding compare_runs(DType dtype, std::span<const std::byte> expected,
                             std::span<const std::byte> found, int64_t first_element);

/// Turns findings into problems. findings[i] belongs to groups[i].
std::vector<Problem> lane_problems(std::span<const LaneGroup> groups,
                                   std::span<const GroupFindings> findings,
                                   std::span<const StorageFinding> storages,
                                   const LaneScanOptions& options);

}  // namespace meg::checkpoint
