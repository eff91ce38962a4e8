#pragma once

#include <cstdint>
#include <string>

#include "libmeg/core/atomic_file.h"
#include "libmeg/core/result.h"
#include "libmeg/dataset/indexed_dataset.h"
#include "libmeg/dataset/samples/gpt_index_plan.h"

namespace meg {

/// Where the three .npy files of a split go.
struct GptIndexPaths {
  std::string document_index;
  std::string sample_index;
  std::string shuffle_index;
};

/// Builds the three indices of a part of a dataset and writes them as .npy files, which appear
/// together at the end, whole (a crash of the machine may take them away again). Uses two threads;
/// memory: the document and the shuffle index, the lengths of `range`, and a bounded rest (the
/// sample index goes straight to its file). The caller holds the lock of their cache. last:
/// nullptr, or a written file that is committed with them, as the last.
Status write_gpt_index_files(const GptIndexPlan& plan, const IndexedDataset& dataset,
                             SequenceRange range, uint32_t seed, const GptIndexPaths& paths,
                             AtomicFile* last = nullptr);

}  // namespace meg
