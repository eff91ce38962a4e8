#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libmeg/dataset/dataset_tokenizer.h"
#include "libmeg/dataset/merge_datasets.h"

namespace meg::dataset {

/// merge_datasets() of TNTIDX files (`--dataset-impl lazy` and `cached`), whose arrays and .bin
/// bytes are joined as they are, whatever the items' shapes. tokenizer: of all inputs. Mirrors
/// Megatron-LM 6ef5bdc megatron/data/indexed_dataset.py: IndexedDatasetBuilder.merge_file_.
Result<MergeSummary> merge_tntidx(const std::vector<std::string>& prefixes,
                                  const std::string& output_prefix,
                                  const std::optional<DatasetTokenizer>& tokenizer,
                                  const MergeOptions& options);

}  // namespace meg::dataset
