#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libmeg/base/dtype.h"
#include "libmeg/base/progress.h"
#include "libmeg/base/result.h"
#include "libmeg/dataset/dataset_view.h"

namespace meg::dataset {

struct RepairOptions {
  /// The end-of-document token: the documents are found in .bin, and PREFIX.idx is not needed.
  /// nullopt: PREFIX.idx is mended.
  std::optional<int64_t> eod = {};
  /// Of the items, with `eod`; nullopt: PREFIX.idx says it.
  std::optional<DType> dtype = {};
  /// With `eod`: the tokens after the last one are no document.
  bool drop_tail = false;
  /// Copies the tokens into a .bin of the output's own, instead of pointing into the dataset's.
  bool copy = false;
  int workers = 1;                 ///< Threads that read .bin.
  ProgressCallback progress = {};  ///< Bytes of .bin, with `eod`; may be empty.
};

struct RepairSummary {
  /// What was wrong, a line each. Empty: nothing was, and nothing was written.
  std::vector<std::string> found;
  DType dtype = DType::kInt32;
  int64_t documents = 0;
  int64_t sequences = 0;
  int64_t items = 0;              ///< tokens
  int64_t lost_documents = 0;     ///< Of those that PREFIX.idx had.
  int64_t unused_bytes = 0;       ///< At the end of .bin, which belong to no document.
  std::optional<ViewOf> view;     ///< Of the output; nullopt for a copy or in place.
  std::vector<std::string> kept;  ///< Files that were renamed, in place.
};

/// Writes the whole documents of a damaged dataset as another one:
///
/// - with `eod`, a document ends after each such token in .bin; every document is one sequence
/// - an .idx that ends in its document indices or modes, or a .bin that ends early: the documents
///   before
/// - lengths without the end-of-document token, as Megatron-LM 6ef5bdc wrote them with --append-eod
///
/// output_prefix: of a view of the dataset's .bin, or of a copy; nullopt: in place, where
/// PREFIX.idx, PREFIX.provenance and, if it must be cut, PREFIX.bin are kept with ".old" behind
/// their names. Memory does not grow with the dataset.
///
/// Errors: kCorruption for damage of other kinds and views of a .bin that has changed, which only
/// `eod` gets around; kInvalidArgument
/// where `eod` is not in .bin, where a view is repaired in place, or where a file is in the way;
/// kUnsupported for TNTIDX; kOutOfRange for a document of more than INT32_MAX tokens; kCancelled.
Result<RepairSummary> repair_dataset(const std::string& prefix,
                                     const std::optional<std::string>& output_prefix,
                                     const RepairOptions& options);

}  // namespace meg::dataset
