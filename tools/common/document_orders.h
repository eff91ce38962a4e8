#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/dataset/dataset_view.h"
#include "libmeg/dataset/indexed_dataset.h"

namespace meg::tools {

/// Ranges of documents [begin, end), in increasing order and apart.
using DocumentRanges = std::vector<dataset::SequenceRange>;

/// Documents as a user names them: `5`, `10:20`, `:100`, `-100:` (as slices of Python's), with
/// commas between them. kOutOfRange for documents that there are not.
Result<DocumentRanges> parse_documents(const std::string& text, int64_t count);

/// The same from a file, one or several a line.
Result<DocumentRanges> read_documents(const std::string& path, int64_t count);

/// The documents whose source, as PREFIX.provenance names it, has a match of the RE2 pattern.
/// kNotFound without provenance.
Result<DocumentRanges> documents_from(const dataset::IndexedDataset& set,
                                      const std::string& pattern);

/// All documents but those of `ranges`.
DocumentRanges others(const DocumentRanges& ranges, int64_t count);

dataset::DocumentOrder in_order(DocumentRanges ranges);

/// Every n-th document of the ranges.
dataset::DocumentOrder every(DocumentRanges ranges, int64_t n);

/// The first documents of the ranges, as long as their tokens are at most `tokens`.
Result<DocumentRanges> within_tokens(const dataset::IndexedDataset& set,
                                     const DocumentRanges& ranges, int64_t tokens);

/// All documents in the order of numpy.random.RandomState(seed).permutation(count). kOutOfRange for
/// 2^32 documents and more.
Result<dataset::DocumentOrder> shuffled(int64_t count, uint32_t seed);

/// All documents by their tokens; those of the same length keep their order.
Result<dataset::DocumentOrder> by_length(const dataset::IndexedDataset& set, bool descending);

}  // namespace meg::tools
