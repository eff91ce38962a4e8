#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/dataset/indexed_dataset.h"
#include "libmeg/io/atomic_file.h"
#include "libmeg/samples/cache_callbacks.h"
#include "libmeg/samples/gpt_index_plan.h"

namespace meg::samples {

/// The paths of the three .npy files of a split.
struct GptIndexPaths {
  std::string document_index;
  std::string sample_index;
  std::string shuffle_index;
};

/// Builds the three indices of a part of a dataset and writes them as .npy files, in the order of
/// GptIndexPaths, which the caller commits. Uses two threads; memory: the document and the shuffle
/// index, the lengths of `range`, and a bounded rest (the sample index goes straight to its file).
/// The caller holds the lock of their cache.
Result<std::vector<io::AtomicFile>> write_gpt_index_files(const GptIndexPlan& plan,
                                                          const dataset::IndexedDataset& dataset,
                                                          dataset::SequenceRange range,
                                                          uint32_t seed, const GptIndexPaths& paths,
                                                          const CacheCancelled& cancelled = {});

}  // namespace meg::samples
