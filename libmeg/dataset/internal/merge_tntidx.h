#pragma once

#include <string>
#include <vector>

#include "libmeg/dataset/merge_datasets.h"

namespace meg::dataset {

/// Whether PREFIX.idx begins as a TNTIDX file does. Objects of a store are none: they are not
/// joined.
Result<bool> is_tntidx(const std::string& prefix);

/// merge_datasets() of TNTIDX files (`--dataset-impl lazy` and `cached`), whose arrays and .bin
/// bytes are joined as they are. Mirrors Megatron-LM 6ef5bdc megatron/data/indexed_dataset.py:
/// IndexedDatasetBuilder.merge_file_.
Result<MergeSummary> merge_tntidx(const std::vector<std::string>& prefixes,
                                  const std::string& output_prefix, const MergeOptions& options);

}  // namespace meg::dataset
