#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "libmeg/base/result.h"
#include "libmeg/dataset/indexed_dataset.h"
#include "tools/common/flag_groups/data_flags.h"

namespace meg::tools {

/// What --trace is asked: a step of the run, or where a document of the dataset was seen.
struct TraceQuestion {
  std::optional<int64_t> step;
  int64_t rank = -1;  ///< Data-parallel; -1: all.
  std::optional<int64_t> document;
};

/// The answer, as the object for --json. Opens the run's index caches, or builds them; its notes go
/// to standard error. dataset: what PREFIX names; also the run's data where no flag says more.
/// kInvalidArgument for wrong usage.
Result<nlohmann::ordered_json> trace(const dataset::IndexedDataset& dataset, DataFlags data,
                                     const TraceQuestion& question);

/// The same object as text.
void print_trace(const nlohmann::ordered_json& answer);

}  // namespace meg::tools
