#include "libmeg/cleaning/openwebtext/internal/character_kernels.h"

namespace meg::cleaning {

void character_hashes_avx2(std::span<const uint32_t> seeds, std::span<const uint64_t> shingles,
                           std::span<int32_t> least) {
  find_least_hashes(seeds, shingles, least);
}

}  // namespace meg::cleaning
