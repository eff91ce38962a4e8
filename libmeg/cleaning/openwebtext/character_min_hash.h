#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "libmeg/base/cpu.h"
#include "libmeg/cleaning/openwebtext/internal/character_kernels.h"

namespace meg::cleaning {

/// Signatures and shingles of texts as Megatron-LM's find_duplicates.py has them by the package lsh
/// (mattilyra/LSH 0.3.0): a signature has the least 32-bit MurmurHash3 of all 5 bytes that follow
/// each other, by each of several seeds. Belongs to one thread.
class CharacterMinHasher {
 public:
  /// seed: of numpy.random.RandomState, which draws the seeds of the hashes. set: the instructions
  /// used; the signatures are the same with all.
  CharacterMinHasher(uint32_t seed, size_t hashes, InstructionSet set = best_instruction_set());

  /// The hashes count as signed numbers and begin at -1, as there, so that texts of fewer than 5
  /// bytes are all alike. Valid until the next call.
  std::span<const int32_t> sign(std::string_view text);

  /// Hashes of the distinct 5 characters that follow each other, in ascending order, without the
  /// last ones of the text, as there. text: valid UTF-8. Valid until the next call.
  std::span<const uint64_t> distinct_shingles(std::string_view text);

 private:
  CharacterKernel kernel_;
  std::vector<uint32_t> seeds_;
  std::vector<int32_t> least_;
  std::vector<uint64_t> shingles_;
};

}  // namespace meg::cleaning
