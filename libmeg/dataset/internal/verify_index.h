#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "libmeg/base/result.h"
#include "libmeg/dataset/index_arrays.h"
#include "libmeg/dataset/index_format.h"
#include "libmeg/dataset/internal/tntidx_format.h"
#include "libmeg/dataset/verify_dataset.h"
#include "libmeg/io/mapped_file.h"

namespace meg::dataset {

/// Where a part of an .idx file begins, to name the one in which a file ends.
struct IndexPart {
  std::string_view name;
  int64_t begin;
  int64_t entry_size;  ///< 0 of a field of the header
};

/// "the file ends in entry 3 of sequence_pointers"
std::string where_it_ends(std::span<const IndexPart> parts, int64_t size);

/// The part of verify_dataset that looks at the .idx file.
///
/// The formats differ in their headers and in where and how the same arrays are stored; the checks
/// of the arrays' entries are the same.
class IndexVerifier {
 public:
  /// Both must outlive the verifier. report: idx_bytes and bin_bytes are set; what is found goes
  /// there.
  IndexVerifier(const io::MappedFile& idx, VerifyReport& report) : idx_(idx), report_(report) {}

  /// False if the header is too damaged to locate the arrays. kUnsupported for TNTIDX items of
  /// several dimensions.
  Result<bool> run(const VerifyOptions& options);

  /// What follows is valid once run() gave true.
  const IndexArrays& arrays() const { return arrays_; }

  /// The size in bytes; 0 if the dtype is unknown.
  int64_t item_size() const { return item_size_; }

  /// The sum of the lengths in bytes; nonsense, but defined, where lengths are.
  int64_t expected_bin_bytes() const { return static_cast<int64_t>(expected_pointer_); }

  /// Documents that have sequences.
  int64_t filled_documents() const { return filled_documents_; }

 private:
  /// How the arrays are stored.
  struct Storage {
    int64_t lengths = 0, pointers = 0, documents = 0;  // their first bytes
    int64_t length_bytes = 4;                          // of an entry
    int64_t pointer_unit = 1;                          // bytes that a pointer counts

    int64_t length_at(int64_t sequence) const { return lengths + length_bytes * sequence; }

    int64_t pointer_at(int64_t sequence) const { return pointers + 8 * sequence; }
  };

  bool check_header();
  void check_version(int64_t offset, uint64_t version);
  bool check_sizes(const std::optional<bool>& multimodal);
  void explain_counts(Problem& problem) const;
  bool counts_fit(int64_t sequences, int64_t document_indices, bool exactly) const;
  void place_arrays(const IndexArrays& arrays, const Storage& storage);

  // The checks of TNTIDX, in verify_tntidx.cpp.
  bool check_tntidx_header();
  Result<bool> check_tntidx_sizes();
  void explain_tntidx_counts(Problem& problem) const;
  bool tntidx_counts_fit(uint64_t items, uint64_t document_indices) const;
  void check_dim_offsets();
  void check_last_offset();

  std::string stored_length(int64_t sequence) const;
  std::string stored_pointer(int64_t sequence) const;
  void check_sequences(bool view);
  void check_pointers(int64_t first, std::span<const int32_t> lengths,
                      std::span<const int64_t> pointers);
  void check_view_pointers(int64_t first, std::span<const int32_t> lengths,
                           std::span<const int64_t> pointers);
  void add_outside_bin();
  void explain_pointers();
  void check_documents();
  Problem& add(Problem problem);

  const io::MappedFile& idx_;
  VerifyReport& report_;
  IndexHeader header_;   // of MMIDIDX
  TntidxHeader tntidx_;  // of TNTIDX
  Storage storage_;
  IndexArrays arrays_;
  int64_t item_size_ = 0;
  uint64_t expected_pointer_ = 0;
  int64_t filled_documents_ = 0;
  // Number of sequences that are not inside .bin.
  int64_t outside_bin_ = 0;
  int64_t first_outside_bin_ = -1;
  // The differences between the pointers and the sums of the lengths.
  int64_t wrong_pointers_ = 0;
  int64_t first_wrong_pointer_ = -1;
  int64_t pointer_drift_ = 0;
  bool drift_is_constant_ = true;
};

}  // namespace meg::dataset
