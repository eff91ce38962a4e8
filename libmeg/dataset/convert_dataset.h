#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "libmeg/base/dtype.h"
#include "libmeg/base/progress.h"
#include "libmeg/base/result.h"
#include "libmeg/dataset/index_format.h"
#include "libmeg/dataset/indexed_dataset.h"

namespace meg::dataset {

struct ConvertOptions {
  std::optional<IndexFormat> format = {};  ///< nullopt: the source's.
  std::optional<DType> dtype = {};         ///< nullopt: the source's.
  ProgressCallback progress = {};          ///< Documents and tokens; may be empty.
};

struct ConvertSummary {
  IndexFormat format = IndexFormat::kMmididx;
  DType dtype = DType::kInt32;
  int64_t documents = 0;
  int64_t sequences = 0;
  int64_t items = 0;  ///< tokens
};

/// Writes a dataset in another format or with items of another type, with its documents, sequences,
/// modes, tokenizer and provenance. Of a view, the tokens that it names. Memory does not grow with
/// the dataset.
///
/// Errors: kOutOfRange for an item that the type does not hold exactly; kInvalidArgument for
/// integers as floats or the other way round, for a type or modes that the format cannot have, and
/// where the output is the source; kUnsupported at s3://, kCorruption, kCancelled.
Result<ConvertSummary> convert_dataset(const IndexedDataset& source,
                                       const std::string& output_prefix,
                                       const ConvertOptions& options);

}  // namespace meg::dataset
