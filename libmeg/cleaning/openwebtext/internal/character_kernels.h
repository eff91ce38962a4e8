#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace meg::cleaning {

/// Bytes of a shingle.
inline constexpr size_t kShingleBytes = 5;

/// The least 32-bit MurmurHash3 of 5-byte shingles (the first byte in the lowest bits), as signed
/// numbers, by each seed; only values below those that are already in `least` count.
using CharacterKernel = void (*)(std::span<const uint32_t> seeds,
                                 std::span<const uint64_t> shingles, std::span<int32_t> least);

void character_hashes_portable(std::span<const uint32_t> seeds, std::span<const uint64_t> shingles,
                               std::span<int32_t> least);
void character_hashes_avx2(std::span<const uint32_t> seeds, std::span<const uint64_t> shingles,
                           std::span<int32_t> least);
void character_hashes_avx512(std::span<const uint32_t> seeds, std::span<const uint64_t> shingles,
                             std::span<int32_t> least);

namespace {

/// The loop of all of them, which each instruction set compiles for itself.
[[maybe_unused]] void find_least_hashes(std::span<const uint32_t> seeds,
                                        std::span<const uint64_t> shingles,
                                        std::span<int32_t> least) {
  const auto rotated = [](uint32_t x, int by) { return (x << by) | (x >> (32 - by)); };
  const auto mixed = [rotated](uint32_t block) {
    return rotated(block * 0xcc9e2d51, 15) * 0x1b873593;
  };
  const uint32_t* const seed = seeds.data();
  int32_t* const lowest = least.data();
  const size_t count = seeds.size();
  for (const uint64_t shingle : shingles) {
    // Four bytes are a block and one is the tail; neither depends on the seed.
    const uint32_t block = mixed(static_cast<uint32_t>(shingle));
    const uint32_t tail = mixed(static_cast<uint32_t>(shingle >> 32));
    for (size_t i = 0; i < count; ++i) {
      uint32_t hash = rotated(seed[i] ^ block, 13) * 5 + 0xe6546b64;
      hash ^= tail ^ static_cast<uint32_t>(kShingleBytes);
      hash = (hash ^ (hash >> 16)) * 0x85ebca6b;
      hash = (hash ^ (hash >> 13)) * 0xc2b2ae35;
      hash ^= hash >> 16;
      lowest[i] = std::min(lowest[i], static_cast<int32_t>(hash));
    }
  }
}

}  // namespace
}  // namespace meg::cleaning
