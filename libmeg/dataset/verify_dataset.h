#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/dtype.h"
#include "libmeg/base/progress.h"
#include "libmeg/base/result.h"

namespace meg::dataset {

/// What can be wrong with a dataset, in the order in which it is checked.
enum class VerifyCheck {
  kMagic,
  kHeader,  ///< The file ends inside the header.
  kVersion,
  kDtype,
  kDocumentCount,     ///< D = 0.
  kIdxSize,           ///< The .idx file's size contradicts its counts.
  kSequenceLengths,   ///< Negative.
  kSequencePointers,  ///< Not the running sum of the lengths times the item size; view: not in
                      ///< .bin.
  kDocumentIndices,   ///< Not monotone, not from 0 to S, or outside.
  kBinSize,           ///< The .bin file's size is not the sum of the lengths times the item size.
  kVocabSize,         ///< Ids outside [0, vocab_size).
  kEod,               ///< Documents with sequences that do not end with the end-of-document id.
};

/// Such as "sequence_pointers"; a field of the --json output.
std::string_view verify_check_name(VerifyCheck check);

/// All entries that fail one check; the fields describe the first of them. Its number `index` is a
/// sequence's (lengths, pointers), a document index's, a document's (eod) or an item's in .bin
/// (vocab_size).
struct VerifyProblem {
  VerifyCheck check = VerifyCheck::kMagic;
  std::string file = {};    ///< The path of the .idx or the .bin.
  int64_t byte_offset = 0;  ///< Of the wrong entry in `file`.
  std::string entry = {};   ///< Such as "sequence 5" or "document index 7"; may be empty.
  int64_t index = -1;       ///< -1 where there is no entry.
  std::string expected = {};
  std::string found = {};
  int64_t count = 1;              ///< Entries that fail this check.
  std::string likely_cause = {};  ///< May be empty.

  /// One line: `FILE: byte 74: sequence_pointers: sequence 5: expected 120, found 7 (and 3 more)`.
  std::string message() const;
};

struct VerifyOptions {
  std::optional<bool> multimodal = {};  ///< As IndexedDataset::Options.
  /// Whether .idx is a view of .bin: sequences may lie anywhere inside it, in any order and more
  /// than once, and need not fill it. Else their order and .bin's size must be as a writer makes
  /// them.
  bool view = false;
  std::optional<int64_t> vocab_size = {};  ///< Every id must lie in [0, vocab_size).
  std::optional<int64_t> eod = {};         ///< Every document with sequences must end with this id.
  int workers = 1;                         ///< Threads that read .bin.
  ProgressCallback progress = {};          ///< Bytes of .bin; may be empty.
};

/// What verify_dataset saw. Counts are 0 where the header could not be read.
struct VerifyReport {
  std::string prefix;
  uint64_t version = 0;
  std::optional<DType> dtype;
  bool multimodal = false;
  int64_t sequence_count = 0;
  int64_t document_count = 0;
  int64_t item_count = 0;  ///< The sum of the lengths.
  int64_t idx_bytes = 0;
  int64_t bin_bytes = 0;
  std::vector<VerifyProblem> problems;  ///< At most one a check.

  bool ok() const { return problems.empty(); }
};

/// Checks every entry of PREFIX.idx, and with vocab_size or eod the items of PREFIX.bin, in bounded
/// memory. A damaged dataset gives a report with problems; an error means that it could not be
/// checked: a file that cannot be read, TNTIDX (kUnsupported), ids asked of a floating-point
/// dataset (kInvalidArgument), or kCancelled.
Result<VerifyReport> verify_dataset(const std::string& prefix, const VerifyOptions& options);

}  // namespace meg::dataset
