#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/dataset/indexed_dataset.h"

namespace meg::samples {

/// The file kReblendRecord of a folder of caches: what a further reblend() of the run cannot read
/// out of the caches.
struct ReblendRecord {
  struct Dataset {
    std::string prefix;
    double weight = 0;  ///< Of 1, from sample `weights_from` on.
    int64_t given = 0;  ///< Samples, of those consumed.
    int64_t to_come = 0;
    std::vector<dataset::SequenceRange> excluded;  ///< Documents, in order and apart.
  };

  int64_t consumed = 0;  ///< Samples of the run when the folder was made.
  int64_t samples = 0;   ///< Of the whole run.
  int64_t weights_from = 0;
  std::vector<Dataset> datasets;  ///< In the order of the run's blend.
};

/// Writes it into the folder.
Status write_reblend_record(const ReblendRecord& record, const std::string& folder);

/// nullopt: the folder has none. kCorruption for another file of that name.
Result<std::optional<ReblendRecord>> read_reblend_record(const std::string& folder);

/// Both lists in one, in order and apart.
std::vector<dataset::SequenceRange> united(std::vector<dataset::SequenceRange> ranges,
                                           const std::vector<dataset::SequenceRange>& others);

}  // namespace meg::samples
