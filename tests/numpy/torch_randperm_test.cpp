// Tables made by PyTorch 2.11.

#include "libmeg/numpy/torch_randperm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace meg::numpy {
namespace {

std::vector<uint32_t> randperm(size_t count, uint64_t seed) {
  std::vector<uint32_t> order(count);
  torch_randperm(seed, order);
  return order;
}

using Order = std::vector<uint32_t>;

TEST(TorchRandperm, GivesTheOrdersOfTorch) {
  EXPECT_EQ(randperm(0, 0), Order{});
  EXPECT_EQ(randperm(1, 0), Order{0});
  EXPECT_EQ(randperm(2, 1), (Order{1, 0}));
  EXPECT_EQ(randperm(10, 0), (Order{4, 1, 7, 5, 3, 9, 0, 8, 6, 2}));
  EXPECT_EQ(randperm(10, 1), (Order{5, 6, 1, 2, 0, 8, 9, 3, 7, 4}));
  EXPECT_EQ(randperm(17, 1234), (Order{6, 4, 8, 2, 16, 9, 15, 12, 0, 10, 7, 5, 1, 3, 14, 13, 11}));
}

TEST(TorchRandperm, OnlyTheSeedsLow32BitsCount) {
  EXPECT_EQ(randperm(100, 5), randperm(100, (uint64_t{1} << 32) + 5));
  EXPECT_NE(randperm(100, 5), randperm(100, 6));
}

TEST(TorchRandperm, EveryNumberIsThereOnce) {
  std::vector<uint32_t> order = randperm(100'000, 3);
  std::sort(order.begin(), order.end());
  std::vector<uint32_t> numbers(order.size());
  std::iota(numbers.begin(), numbers.end(), 0U);
  EXPECT_EQ(order, numbers);
}

}  // namespace
}  // namespace meg::numpy
