#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libmeg/base/progress.h"
#include "libmeg/base/result.h"
#include "libmeg/preprocess/preprocess.h"

namespace meg::cleaning {

/// What the number of shingles that two texts have in common is divided by.
enum class SimilarityOf { kUnion, kSmaller, kLarger };

/// As the flags of Megatron-LM's find_duplicates.py, with its defaults.
struct DuplicatePairsOptions {
  /// JSON lines, and the key of its documents' URLs: strings or integers.
  struct Input {
    std::string path;
    std::string key;
  };

  std::vector<Input> inputs;
  std::string output;
  SimilarityOf similarity = SimilarityOf::kUnion;
  /// How many documents of a bucket are compared with all that remain of it; -1: all of them, which
  /// is quadratic.
  int64_t heuristic_iterations = 1;
  int64_t bands = 10;    ///< Buckets of each document.
  int64_t hashes = 100;  ///< Of a signature; a multiple of `bands`.
  uint32_t seed = 1234;  ///< Of the hashes.
  preprocess::OnError on_error = preprocess::OnError::kFail;
  int workers = 1;
};

struct DuplicatePairsSummary {
  int64_t documents = 0;
  int64_t input_bytes = 0;
  int64_t skipped_lines = 0;
  int64_t repeated_urls = 0;  ///< Documents with the URL of an earlier one, which they replace.
  int64_t compared = 0;       ///< Pairs of documents, as often as they share a bucket.
  int64_t similar = 0;        ///< Of those, more than half alike.
  std::vector<std::string> skipped_examples;
};

/// Finds documents that are more than half alike among those with a common bucket, and writes lines
/// `{URL: [{URL: similarity}, ...]}` for group_duplicates(). In each bucket the first document is
/// compared with all others; those that are alike leave it with the first. Buckets, similarities
/// and the order of the lines are those of Megatron-LM's find_duplicates.py, which compares a
/// random document instead of the first.
///
/// Memory: 16 bytes for each band of a document, its URL and 80 bytes; the shingles of texts, 8
/// bytes for each distinct one, are in a temporary file beside the output.
Result<DuplicatePairsSummary> find_duplicate_pairs(const DuplicatePairsOptions& options,
                                                   const ProgressCallback& progress);

}  // namespace meg::cleaning
