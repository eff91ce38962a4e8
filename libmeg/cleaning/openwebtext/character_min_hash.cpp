#include "libmeg/cleaning/openwebtext/character_min_hash.h"

#include <xxhash.h>

#include <algorithm>

#include "libmeg/numpy/random_state.h"
#include "libmeg/text/utf8.h"

namespace meg::cleaning {
namespace {

CharacterKernel kernel_of(InstructionSet set) {
#if defined(__x86_64__)
  if (set == InstructionSet::kAvx512) return character_hashes_avx512;
  if (set == InstructionSet::kAvx2) return character_hashes_avx2;
#endif
  static_cast<void>(set);
  return character_hashes_portable;
}

}  // namespace

void character_hashes_portable(std::span<const uint32_t> seeds, std::span<const uint64_t> shingles,
                               std::span<int32_t> least) {
  find_least_hashes(seeds, shingles, least);
}

CharacterMinHasher::CharacterMinHasher(uint32_t seed, size_t hashes, InstructionSet set)
    : kernel_(kernel_of(set)), least_(hashes) {
  constexpr uint64_t kMostSeed = 999'999;
  numpy::RandomState random(seed);
  for (size_t i = 0; i < hashes; ++i) {
    seeds_.push_back(static_cast<uint32_t>(random.bounded(kMostSeed)));
  }
}

std::span<const int32_t> CharacterMinHasher::sign(std::string_view text) {
  shingles_.clear();
  uint64_t shingle = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    shingle = shingle >> 8 | static_cast<uint64_t>(static_cast<unsigned char>(text[i])) << 32;
    if (i + 1 >= kShingleBytes) shingles_.push_back(shingle);
  }
  std::fill(least_.begin(), least_.end(), -1);
  kernel_(seeds_, shingles_, least_);
  return least_;
}

std::span<const uint64_t> CharacterMinHasher::distinct_shingles(std::string_view text) {
  constexpr size_t kCharacters = 5;
  shingles_.clear();
  size_t begin = 0, end = 0;
  for (size_t count = 0; end < text.size(); ++count) {
    if (count >= kCharacters) {
      shingles_.push_back(XXH3_64bits(text.data() + begin, end - begin));
      begin += text::character_size(text[begin]);
    }
    end += text::character_size(text[end]);
  }
  std::sort(shingles_.begin(), shingles_.end());
  shingles_.erase(std::unique(shingles_.begin(), shingles_.end()), shingles_.end());
  return shingles_;
}

}  // namespace meg::cleaning
