#include "libmeg/cleaning/duplicates/internal/min_hash_kernels.h"

namespace meg::cleaning {

void min_hash_avx2(const HashFunctions& functions, std::span<const uint64_t> shingles,
                   std::span<uint64_t, kHashes> least) {
  find_least(functions, shingles, least);
}

}  // namespace meg::cleaning
