#pragma once

#include <cstdint>
#include <vector>

#include "libmeg/base/progress.h"
#include "libmeg/base/result.h"
#include "libmeg/dataset/indexed_dataset.h"
#include "libmeg/preprocess/preprocess.h"
#include "libmeg/tokenizer/interface/tokenizer.h"

namespace meg::preprocess {

struct FoundProvenance {
  PreprocessSummary read;        ///< Of the inputs; without datasets.
  int64_t documents = 0;         ///< Of the dataset.
  std::vector<int64_t> missing;  ///< Those that no input has, ascending.
  /// Documents that are in the dataset more often than in the inputs: they have the place of an
  /// equal document.
  int64_t shared_places = 0;
  int64_t unused = 0;  ///< Documents of the inputs that are not in the dataset, or not that often.
};

/// Writes PREFIX.provenance for a dataset that was written without it: tokenizes the inputs as
/// preprocess() would by `options` (one key; nothing of the output is used), and joins them with
/// the documents of the dataset by a hash of 128 bits of their sequences. Of equal documents the
/// first of the dataset has the place of the first of the inputs, and so on. Memory: 44 bytes a
/// document of the dataset.
///
/// Errors: kInvalidArgument for ids that the tokenizer does not have, where hardly any of the first
/// documents of the inputs is in the dataset and it can be said why (an end-of-document token more
/// or less, sentences, other ids), where none is at all, and where there is a PREFIX.provenance;
/// those of visit_documents(); kUnsupported at s3://, kCorruption, kCancelled.
Result<FoundProvenance> find_provenance(const dataset::IndexedDataset& dataset,
                                        const PreprocessOptions& options,
                                        const tokenizer::Tokenizer& tokenizer,
                                        const ProgressCallback& progress);

}  // namespace meg::preprocess
