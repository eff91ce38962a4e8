#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/cpu.h"
#include "libmeg/cleaning/duplicates/internal/min_hash_kernels.h"
#include "libmeg/cleaning/words/english_words.h"

namespace meg::cleaning {

/// Signatures of texts: two texts that share a part J of their 5-grams of words have each of the
/// 112 hashes in common with probability J. Mirrors datatrove 0.10's MinhashDedupSignature with its
/// defaults. Belongs to one thread.
class MinHasher {
 public:
  /// set: the instructions used; the signatures are the same with all.
  explicit MinHasher(InstructionSet set = best_instruction_set());

  /// False for a text of fewer than 5 words, which has no signature.
  bool sign(std::string_view text, std::span<uint64_t, kHashes> signature);

  /// The distinct hashes of the 5-grams of the text that was signed last, in ascending order; valid
  /// until the next call.
  std::span<const uint64_t> distinct_shingles();

 private:
  /// Sets joined_ and begins_.
  void join_words();

  HashKernel kernel_;
  EnglishWords words_;
  std::string simplified_;
  std::string joined_;          // the words, with a space after each
  std::vector<size_t> begins_;  // of them there, and the end
  std::vector<uint64_t> shingles_;
};

}  // namespace meg::cleaning
