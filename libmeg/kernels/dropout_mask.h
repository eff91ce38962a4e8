#pragma once

#include <cstdint>

#include "libmeg/kernels/host_device.h"

namespace meg::kernels {

/// The elements of an array that dropout keeps: recomputed wherever the mask is needed, never
/// stored. It depends only on these numbers and an element's position, so a CPU and any GPU compute
/// the same mask.
struct DropoutMask {
  /// What a call takes from a generator's offset.
  static constexpr uint64_t kOffsets = 4;

  double kept = 1;      ///< The probability that an element is kept; the others become 0.
  uint64_t seed = 0;    ///< The generator's.
  uint64_t offset = 0;  ///< The generator's, a multiple of 4, before it was advanced by kOffsets.
};

/// Four random words.
struct PhiloxWords {
  uint32_t words[4];
};

/// Philox 4x32 with 10 rounds (Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, 2011).
MEG_HOST_DEVICE inline PhiloxWords philox(PhiloxWords counter, uint64_t key) {
  auto low = static_cast<uint32_t>(key);
  auto high = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t first = uint64_t{0xd2511f53} * counter.words[0];
    const uint64_t second = uint64_t{0xcd9e8d57} * counter.words[2];
    counter = {{static_cast<uint32_t>(second >> 32) ^ counter.words[1] ^ low,
                static_cast<uint32_t>(second),
                static_cast<uint32_t>(first >> 32) ^ counter.words[3] ^ high,
                static_cast<uint32_t>(first)}};
    low += 0x9e3779b9;
    high += 0xbb67ae85;
  }
  return counter;
}

/// The factors by which dropout multiplies elements: 0, or 1 / kept.
class DropoutFactors {
 public:
  MEG_HOST_DEVICE explicit DropoutFactors(const DropoutMask& mask)
      : seed_(mask.seed),
        place_(mask.offset / DropoutMask::kOffsets),
        limit_(static_cast<uint64_t>(mask.kept * 4294967296.0)),
        factor_(mask.kept > 0 ? static_cast<float>(1 / mask.kept) : 0.0f) {}

  MEG_HOST_DEVICE bool keeps_all() const { return limit_ >= uint64_t{1} << 32; }

  /// The words that decide elements 4 * group to 4 * group + 3: those of curand for this seed and
  /// offset, with the group as the subsequence.
  MEG_HOST_DEVICE PhiloxWords words_of(int64_t group) const {
    const auto subsequence = static_cast<uint64_t>(group);
    return philox({{static_cast<uint32_t>(place_), static_cast<uint32_t>(place_ >> 32),
                    static_cast<uint32_t>(subsequence), static_cast<uint32_t>(subsequence >> 32)}},
                  seed_);
  }

  MEG_HOST_DEVICE float of_word(uint32_t word) const { return word < limit_ ? factor_ : 0.0f; }

  /// The factor of one element, by its index in the array.
  MEG_HOST_DEVICE float of_element(int64_t i) const {
    return keeps_all() ? 1.0f : of_word(words_of(i / 4).words[i % 4]);
  }

 private:
  uint64_t seed_, place_, limit_;
  float factor_;
};

}  // namespace meg::kernels
