#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace meg {

/// A problem in a file, as every verifier reports it. Unused fields are empty.
struct Problem {
  /// What was checked, such as "bin_size": one of the names defined beside the verifier.
  std::string_view check = {};
  std::string file = {};                    ///< A path.
  std::optional<int64_t> byte_offset = {};  ///< Of the wrong entry in `file`.

  /// "sequence 5"; "decoder.layers.3.mlp.linear_fc1.weight exp_avg".
  std::string subject = {};

  /// Index of the first bad element in the tensor `subject`; together with a byte_offset, the
  /// number at the end of `subject`.
  std::vector<int64_t> index = {};
  std::string expected = {};
  std::string found = {};
  int64_t count = 1;  ///< Things of this kind that are wrong; the fields describe the first.
  std::string likely_cause = {};

  /// One line: `FILE: byte N: CHECK: SUBJECT[INDEX]: expected X, found Y (and N more); likely
  /// cause: Z`.
  std::string message() const;
};

}  // namespace meg
