// Tables made by numpy 2.4.6.

#include "libmeg/numpy/pcg64.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace meg::numpy {
namespace {

using Words = std::vector<uint64_t>;

Words first_words(Words seed, int count = 3) {
  Pcg64 random(seed);
  Words words;
  for (int i = 0; i < count; ++i) words.push_back(random.next64());
  return words;
}

TEST(Pcg64, GivesTheWordsOfNumpysDefaultRng) {
  EXPECT_EQ(first_words({0}), (Words{0xa30febcfd9c2825f, 0x4510bdf882d9d721, 0xa7d3da94ecde8b8}));
  EXPECT_EQ(first_words({1}), (Words{0x8306bdf37922e4ff, 0xf35196bbc152a866, 0x24e7a4f608ec18cd}));
  EXPECT_EQ(first_words({1234}),
            (Words{0xfa08fef3fab6bbba, 0x615481f7fce9ac81, 0xec59dd7c2bde3cb4}));
}

TEST(Pcg64, SeedsOfMoreThan32BitsAndListsOfThemCountWhole) {
  EXPECT_EQ(first_words({uint64_t{1} << 32}),
            (Words{0xe3c5ebe285ac1625, 0x8ea09968fe31dbcc, 0xcd084ff84d8de9be}));
  EXPECT_EQ(first_words({~uint64_t{0}}),
            (Words{0xae163a7a8c47568f, 0xd86659f5f3382359, 0x1e52b195bc2d24a}));
  EXPECT_EQ(first_words({0, 0}), first_words({0}));
  EXPECT_EQ(first_words({2, 7}),
            (Words{0x1edc3f59a94f24fa, 0xc1cf2b2add8fb2bd, 0xe7cffc9c5a3fd020}));
  EXPECT_EQ(first_words({1, uint64_t{1} << 40, 3}),
            (Words{0xe0f6f17de48c52aa, 0x6bb8017231fe41a2, 0x85dd5ad43cfbae45}));
  EXPECT_EQ(first_words({1, 2, 3, 4, 5, 6}),
            (Words{0x9f2e9b7b6e265292, 0x1e9114dcb6eb4a21, 0xd6cbd985e3663eed}));
}

// default_rng(5).integers(0, bound), one after another: draws of 32 bits take the halves of words
// in turn, wider ones leave a kept half where it is.
TEST(Pcg64, BoundedIntegersOfMixedWidthsShareTheStreamAsInNumpy) {
  constexpr uint64_t kOne = 1;
  const std::vector<std::array<uint64_t, 2>> draws = {
      {1000, 670},
      {10, 8},
      {kOne << 32, 97294837},
      {kOne << 40, 566606446456},
      {3 * (kOne << 61), 1977039342899601836},
      {7, 5},
      {(kOne << 32) - 1, 4207022316},
      {(kOne << 32) + 1, 1646556805},
      {3, 0},
      {(kOne << 31) - 1, 1226609121},
      {3 * (kOne << 29), 657892146},
      {0, 835179914805982670},  // 2^64
      {0, 899421011404032692},
      {1, 0},
      {100, 14},
      {3 * (kOne << 62), 9025564532292659391U},
      {3 * (kOne << 62), 3244462254657943953},
      {3 * (kOne << 62), 6017524636037711949},
      {3 * (kOne << 62), 13477922540396128271U},
      {3 * (kOne << 62), 12419421823108603442U},
      {3 * (kOne << 62), 11679985417388032098U},
      {3 * (kOne << 30), 3218571552},
      {3 * (kOne << 30), 372793162},
      {3 * (kOne << 30), 2023027070},
      {3 * (kOne << 30), 1588138305},
      {3 * (kOne << 30), 2144906014},
      {3 * (kOne << 30), 2179768976},
  };
  Pcg64 random(5);
  for (const auto& [bound, drawn] : draws) EXPECT_EQ(random.bounded(bound - 1), drawn) << bound;
}

// The first lengths of Megatron's mock documents.
TEST(Pcg64, DrawsTheOraclesStream) {
  Pcg64 random(0);
  for (const uint64_t length :
       {3484, 2609, 2094, 1105, 1261, 168, 309, 68, 718, 3331, 2660, 3738}) {
    EXPECT_EQ(1 + random.bounded(4094), length);
  }
}

}  // namespace
}  // namespace meg::numpy
