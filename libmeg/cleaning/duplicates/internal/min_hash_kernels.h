#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace meg::cleaning {

inline constexpr size_t kBucketCount = 14;
inline constexpr size_t kHashesPerBucket = 8;
inline constexpr size_t kHashes = kBucketCount * kHashesPerBucket;

/// The part of a signature that belongs to a bucket.
inline std::span<const uint64_t, kHashesPerBucket> hashes_of(
    std::span<const uint64_t, kHashes> signature, size_t bucket) {
  return signature.subspan(bucket * kHashesPerBucket).first<kHashesPerBucket>();
}

/// The functions x * factor + summand, modulo 2^64 and then modulo 2^61 - 1.
struct HashFunctions {
  std::array<uint64_t, kHashes> factors, summands;
};

/// The least value of each function over the shingles.
using HashKernel = void (*)(const HashFunctions& functions, std::span<const uint64_t> shingles,
                            std::span<uint64_t, kHashes> least);

void min_hash_portable(const HashFunctions& functions, std::span<const uint64_t> shingles,
                       std::span<uint64_t, kHashes> least);
void min_hash_avx2(const HashFunctions& functions, std::span<const uint64_t> shingles,
                   std::span<uint64_t, kHashes> least);
void min_hash_avx512(const HashFunctions& functions, std::span<const uint64_t> shingles,
                     std::span<uint64_t, kHashes> least);

namespace {

/// The loop of all of them, which each instruction set compiles for itself.
[[maybe_unused]] void find_least(const HashFunctions& functions, std::span<const uint64_t> shingles,
                                 std::span<uint64_t, kHashes> least) {
  constexpr uint64_t kPrime = (uint64_t{1} << 61) - 1;
  constexpr size_t kBlock = 16;  // As many as registers hold.
  for (size_t block = 0; block < kHashes; block += kBlock) {
    std::array<uint64_t, kBlock> factors, summands, lowest;
    for (size_t i = 0; i < kBlock; ++i) {
      factors[i] = functions.factors[block + i];
      summands[i] = functions.summands[block + i];
      lowest[i] = ~uint64_t{0};
    }
    for (const uint64_t shingle : shingles) {
      for (size_t i = 0; i < kBlock; ++i) {
        const uint64_t product = shingle * factors[i] + summands[i];
        // 2^61 is 1 modulo the prime.
        const uint64_t folded = (product & kPrime) + (product >> 61);
        // A folded value below the prime wraps round, and stays the lesser one.
        lowest[i] = std::min(lowest[i], std::min(folded, folded - kPrime));
      }
    }
    for (size_t i = 0; i < kBlock; ++i) least[block + i] = lowest[i];
  }
}

}  // namespace
}  // namespace meg::cleaning
