#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/dtype.h"
#include "libmeg/base/problem.h"
#include "libmeg/base/progress.h"
#include "libmeg/base/result.h"
#include "libmeg/dataset/dataset_view.h"
#include "libmeg/dataset/index_format.h"

namespace meg::dataset {

/// Names of the checks of a dataset, in the order in which they are made. A problem represents all
/// entries that fail a check and describes the first; its `index` is the number of a sequence
/// (lengths, pointers), of a dim offset, of a document index, of a document (eod) or of an item in
/// .bin (vocab_size). TNTIDX calls lengths "sizes" and pointers "data offsets".
struct VerifyCheck {
  static constexpr std::string_view kMagic = "magic";
  /// The file ends inside the header.
  static constexpr std::string_view kHeader = "header";
  static constexpr std::string_view kVersion = "version";
  static constexpr std::string_view kDtype = "dtype";
  /// TNTIDX: the bytes of an item do not go with the dtype.
  static constexpr std::string_view kItemSize = "item_size";
  /// D = 0.
  static constexpr std::string_view kDocumentCount = "document_count";
  /// The .idx file's size contradicts its counts.
  static constexpr std::string_view kIdxSize = "idx_size";
  /// Negative, or 2^31 and more.
  static constexpr std::string_view kSequenceLengths = "sequence_lengths";
  /// Not the running sum of the lengths times the item size; view: not in .bin.
  static constexpr std::string_view kSequencePointers = "sequence_pointers";
  /// TNTIDX: an item has not the one size of its number.
  static constexpr std::string_view kDimOffsets = "dim_offsets";
  /// Not monotone, not from 0 to S, or outside.
  static constexpr std::string_view kDocumentIndices = "document_indices";
  /// The .bin file's size is not the sum of the lengths times the item size.
  static constexpr std::string_view kBinSize = "bin_size";
  /// Ids outside [0, vocab_size).
  static constexpr std::string_view kVocabSize = "vocab_size";
  /// Documents with sequences that do not end with the end-of-document id.
  static constexpr std::string_view kEod = "eod";
};

struct VerifyOptions {
  std::optional<bool> multimodal = {};  ///< See IndexedDataset::Options.
  /// Whether .idx is a view of .bin: sequences may be anywhere inside it, in any order and more
  /// than once, and need not fill it. Otherwise their order and .bin's size must be as a writer
  /// produces them.
  bool view = false;
  std::optional<int64_t> vocab_size = {};  ///< Every id must lie in [0, vocab_size).
  std::optional<int64_t> eod = {};         ///< Every document with sequences must end with this id.
  int workers = 1;                         ///< Threads that read .bin.
  ProgressCallback progress = {};          ///< Bytes of .bin; may be empty.
};

/// The result of verify_dataset. Counts are 0 if the header could not be read.
struct VerifyReport {
  std::string prefix;
  IndexFormat format = IndexFormat::kMmididx;
  uint64_t version = 0;
  std::optional<DType> dtype;
  bool multimodal = false;
  std::optional<ViewOf> view;  ///< As PREFIX.libmeg says; checked as one with and without `view`.
  int64_t sequence_count = 0;
  int64_t document_count = 0;
  int64_t item_count = 0;  ///< The sum of the lengths.
  int64_t idx_bytes = 0;
  int64_t bin_bytes = 0;
  std::vector<Problem> problems;  ///< At most one a check.

  bool ok() const { return problems.empty(); }
};

/// Checks every entry of PREFIX.idx, and with vocab_size or eod the items of PREFIX.bin, in bounded
/// memory. A damaged dataset gives a report with problems; an error means that it could not be
/// checked: a file that cannot be read, TNTIDX items of several dimensions (kUnsupported), ids
/// asked of a floating-point dataset (kInvalidArgument), or kCancelled.
Result<VerifyReport> verify_dataset(const std::string& prefix, const VerifyOptions& options);

}  // namespace meg::dataset
