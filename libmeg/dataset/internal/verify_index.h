#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "libmeg/base/result.h"
#include "libmeg/dataset/index_format.h"
#include "libmeg/dataset/internal/verify_items.h"
#include "libmeg/dataset/verify_dataset.h"
#include "libmeg/io/mapped_file.h"

namespace meg::dataset {

/// The part of verify_dataset that looks at the .idx file.
class IndexVerifier {
 public:
  /// Both must outlive the verifier. report: idx_bytes and bin_bytes are set; what is found goes
  /// there.
  IndexVerifier(const io::MappedFile& idx, VerifyReport& report) : idx_(idx), report_(report) {}

  /// False where the header is too damaged to tell where the arrays are. kUnsupported for TNTIDX.
  Result<bool> run(const VerifyOptions& options);

  /// What follows is valid once run() gave true.
  const IndexArrays& arrays() const { return arrays_; }

  /// Bytes; 0 where the dtype is unknown.
  int64_t item_size() const { return item_size_; }

  /// The sum of the lengths in bytes; nonsense, but defined, where lengths are.
  int64_t expected_bin_bytes() const { return static_cast<int64_t>(expected_pointer_); }

  /// Documents that have sequences.
  int64_t filled_documents() const { return filled_documents_; }

 private:
  Result<bool> check_header();
  bool check_sizes(const std::optional<bool>& multimodal);
  void explain_counts(Problem& problem) const;
  bool counts_fit(int64_t sequences, int64_t document_indices, bool exactly) const;
  void place_arrays(const IndexLayout& layout);
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
  IndexHeader header_;
  IndexArrays arrays_;
  int64_t item_size_ = 0;
  uint64_t expected_pointer_ = 0;
  int64_t filled_documents_ = 0;
  // Sequences that do not lie inside .bin.
  int64_t outside_bin_ = 0;
  int64_t first_outside_bin_ = -1;
  // How the pointers differ from what the lengths say.
  int64_t wrong_pointers_ = 0;
  int64_t first_wrong_pointer_ = -1;
  int64_t pointer_drift_ = 0;
  bool drift_is_constant_ = true;
};

}  // namespace meg::dataset
