#include "libmeg/cleaning/openwebtext/character_min_hash.h"

#include <gmock/gmock.h>

#include <numeric>
#include <string>
#include <vector>

namespace meg::cleaning {
namespace {

/// What the package lsh 0.3.0 makes of texts with Megatron's seed and 100 hashes.
struct Case {
  std::string text;
  std::vector<int32_t> first;
  int64_t sum;
};

TEST(CharacterMinHasher, SignsAsTheScriptsPackage) {
  const std::vector<Case> cases = {
      {"hello world, this", {-1985482123, -1737910694, -2043081895, -1265552848}, -183142286865},
      {"abc", {-1, -1, -1, -1}, -100},
      {"Grüße \U0001f600", {-1937781084, -2076980629, -1134558687, -1940408572}, -172943292326},
  };
  for (const InstructionSet set :
       {InstructionSet::kPortable, InstructionSet::kAvx2, InstructionSet::kAvx512}) {
    if (set > best_instruction_set()) continue;
    CharacterMinHasher hasher(1234, 100, set);
    for (const Case& one : cases) {
      const std::span<const int32_t> found = hasher.sign(one.text);
      EXPECT_THAT(std::vector(found.begin(), found.begin() + 4), testing::Eq(one.first))
          << one.text << instruction_set_name(set);
      EXPECT_EQ(std::accumulate(found.begin(), found.end(), int64_t{0}), one.sum);
    }
  }
}

TEST(CharacterMinHasher, LeavesTheLastShingleOut) {
  CharacterMinHasher hasher(1234, 1);
  EXPECT_EQ(hasher.distinct_shingles("").size(), 0);
  EXPECT_EQ(hasher.distinct_shingles("äöüßé").size(), 0);
  EXPECT_EQ(hasher.distinct_shingles("äöüßéè").size(), 1);
  EXPECT_EQ(hasher.distinct_shingles("abababababab").size(), 2);
}

}  // namespace
}  // namespace meg::cleaning
