// RandomState and its kernels against MT19937 and the shuffle as they are described.

#include "libmeg/numpy/random_state.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

namespace meg::numpy {
namespace {

std::vector<InstructionSet> instruction_sets() {
  std::vector<InstructionSet> sets;
  for (const auto set :
       {InstructionSet::kPortable, InstructionSet::kAvx2, InstructionSet::kAvx512}) {
    if (set <= best_instruction_set()) sets.push_back(set);
  }
  return sets;
}

uint64_t plain_bounded(std::mt19937& words, uint64_t max) {
  if (max == 0) return 0;
  uint64_t mask = 1;
  while (mask < max) mask = 2 * mask + 1;
  while (true) {
    uint64_t word = words();
    if (max > 0xffffffff) word = (word << 32) | words();
    if ((word & mask) <= max) return word & mask;
  }
}

std::vector<int32_t> plain_shuffled(std::mt19937& words, size_t size) {
  std::vector<int32_t> values(size);
  std::iota(values.begin(), values.end(), 0);
  for (size_t i = size; i-- > 1;) std::swap(values[i], values[plain_bounded(words, i)]);
  return values;
}

template <class T>
std::vector<T> shuffled(RandomState& random, size_t size) {
  std::vector<T> values(size);
  std::iota(values.begin(), values.end(), T{0});
  random.shuffle(values);
  return values;
}

/// 0 to 40, around powers of two, and some random ones.
std::vector<size_t> sizes() {
  std::vector<size_t> sizes(41);
  std::iota(sizes.begin(), sizes.end(), size_t{0});
  for (size_t power = 64; power <= (size_t{1} << 17); power *= 2) {
    for (const size_t size : {power - 1, power, power + 1, power + 2, power + 17}) {
      sizes.push_back(size);
    }
  }
  std::mt19937 words(5);
  for (int i = 0; i < 40; ++i) sizes.push_back(words() % 5000);
  return sizes;
}

TEST(RandomStateTest, DrawsTheWordsOfMersenneTwister) {
  for (const InstructionSet set : instruction_sets()) {
    for (const uint32_t seed : {0U, 1U, 1234U, 0xffffffffU}) {
      std::mt19937 expected(seed);
      RandomState random(seed, set);
      for (int i = 0; i < 5000; ++i) ASSERT_EQ(random.next(), expected());
    }
  }
}

TEST(RandomStateTest, ShufflesOneAfterAnotherAsThePlainLoop) {
  for (const InstructionSet set : instruction_sets()) {
    std::mt19937 expected(1234);
    RandomState random(1234, set);
    for (const size_t size : sizes()) {
      ASSERT_EQ(shuffled<int32_t>(random, size), plain_shuffled(expected, size)) << size;
      ASSERT_EQ(random.next(), expected());
    }
  }
}

TEST(RandomStateTest, TheTypeOfTheValuesPlaysNoPart) {
  for (const size_t size : {2U, 777U, 70000U}) {
    RandomState first(7);
    RandomState second(7);
    RandomState third(7);
    const auto values = shuffled<int64_t>(first, size);
    const auto narrow = shuffled<int32_t>(second, size);
    const auto without_sign = shuffled<uint32_t>(third, size);
    EXPECT_TRUE(std::equal(values.begin(), values.end(), narrow.begin()));
    EXPECT_TRUE(std::equal(values.begin(), values.end(), without_sign.begin()));
  }
}

TEST(RandomStateTest, SkippingAShuffleLeavesTheSameState) {
  for (const InstructionSet set : instruction_sets()) {
    RandomState skipping(99, set);
    RandomState shuffling(99, set);
    for (const size_t size : sizes()) {
      skipping.skip_shuffle(size);
      shuffled<int32_t>(shuffling, size);
      ASSERT_EQ(skipping.next(), shuffling.next()) << size;
    }
  }
}

TEST(RandomStateTest, AShuffleEndsWhereItIsStopped) {
  constexpr size_t kSize = 5 << 20;
  std::vector<int32_t> values(kSize);
  for (const int questions : {1, 2, 5}) {
    int asked = 0;
    const RandomState::Stop stop = [&] { return ++asked == questions; };
    EXPECT_FALSE(RandomState(1).shuffle(std::span(values), stop));
    EXPECT_EQ(asked, questions);
    asked = 0;
    EXPECT_FALSE(RandomState(1).skip_shuffle(kSize, stop));
    EXPECT_EQ(asked, questions);
  }
  EXPECT_TRUE(RandomState(1).shuffle(std::span(values), [] { return false; }));
}

TEST(RandomStateTest, BoundsNeedTwoWordsAbove32Bits) {
  std::mt19937 expected(3);
  RandomState random(3);
  for (const uint64_t max : {uint64_t{0}, uint64_t{1}, uint64_t{5}, uint64_t{0xffffffff},
                             uint64_t{0x100000000}, uint64_t{0x123456789abc}, ~uint64_t{0}}) {
    for (int i = 0; i < 100; ++i) ASSERT_EQ(random.bounded(max), plain_bounded(expected, max));
  }
}

/// Words that lie, once masked, close around the bound: which of them fit hangs on those before.
std::vector<uint32_t> words_near(uint32_t max, std::mt19937& random) {
  std::vector<uint32_t> words(random() % 200);
  for (uint32_t& word : words) {
    const auto any = static_cast<uint32_t>(random());
    const uint32_t near = max + 20 - std::min(max + 20, any % 60);
    word = random() % 4 == 0 ? any : near | (any & ~bit_mask_of(max));
  }
  return words;
}

TEST(RandomKernelsTest, DrawBelowAFallingBoundAlike) {
  std::mt19937 random(11);
  for (int round = 0; round < 20000; ++round) {
    const auto max = static_cast<uint32_t>(std::max<uint64_t>(1, random() >> random() % 32));
    const auto words = words_near(max, random);
    const uint32_t same_bits = max - bit_mask_of(max) / 2;
    const size_t wanted = std::min<size_t>(random() % 100, same_bits);
    std::vector<uint32_t> expected(wanted);
    const RandomDraw plain = kPortableRandomKernels.draw(words, max, expected);
    expected.resize(plain.targets);
    for (const InstructionSet set : instruction_sets()) {
      std::vector<uint32_t> targets(wanted);
      const RandomDraw draw = random_kernels(set).draw(words, max, targets);
      ASSERT_EQ(draw.words, plain.words);
      ASSERT_EQ(draw.targets, plain.targets);
      targets.resize(draw.targets);
      ASSERT_EQ(targets, expected);
    }
  }
}

}  // namespace
}  // namespace meg::numpy
