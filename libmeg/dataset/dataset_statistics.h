#pragma once

#include <cstdint>
#include <vector>

#include "libmeg/base/progress.h"
#include "libmeg/base/result.h"
#include "libmeg/dataset/indexed_dataset.h"

namespace meg::dataset {

struct TokenCount {
  int64_t id = 0;
  int64_t count = 0;
};

/// A document that is there more than once.
struct RepeatedDocument {
  int64_t document = 0;  ///< The first one.
  int64_t count = 0;
  int64_t items = 0;  ///< tokens of each
};

/// Documents with from to `to` tokens.
struct DocumentLengths {
  int64_t from = 0, to = 0;
  int64_t documents = 0;
  int64_t items = 0;  ///< Their tokens.
};

struct DatasetStatistics {
  int64_t documents = 0;
  int64_t empty_documents = 0;  ///< Those without tokens.
  int64_t sequences = 0;
  int64_t items = 0;  ///< tokens
  /// Tokens of a document: the smallest number that at least 50, 90, 99 % of them do not exceed.
  int64_t min = 0, median = 0, p90 = 0, p99 = 0, max = 0;
  /// 0, 1, 2 to 3, 4 to 7, ...: from the first that a document has to the last.
  std::vector<DocumentLengths> length_histogram;
  std::vector<int64_t> token_counts;  ///< By id, up to the largest one.
  /// Documents and tokens of them that were there before: with the same sequences.
  int64_t duplicates = 0;
  int64_t duplicate_items = 0;
  std::vector<RepeatedDocument> most_frequent;  ///< The largest counts first.

  /// The `most` ids with the largest counts, these first.
  std::vector<TokenCount> most_frequent_tokens(size_t most) const;
};

struct StatisticsOptions {
  int workers = 1;
  size_t most = 10;                ///< Of `most_frequent`.
  ProgressCallback progress = {};  ///< Documents and tokens; may be empty.
};

/// Reads every token once. Keeps 28 bytes a document. Errors: kInvalidArgument for floats,
/// kOutOfRange for ids below 0 or from 2^24 on, kCorruption, kUnsupported at s3://, kCancelled.
Result<DatasetStatistics> dataset_statistics(const IndexedDataset& dataset,
                                             const StatisticsOptions& options);

}  // namespace meg::dataset
