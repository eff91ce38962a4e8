#include "libmeg/tokenizer/models/internal/min_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace meg::tokenizer::fast {
namespace {

TEST(MinTree, KnowsTheSmallestAfterEveryChange) {
  std::mt19937_64 random(1);
  MinTree tree;
  for (const size_t size : {1, 2, 7, 8, 9, 63, 64, 65, 100, 511, 512, 513, 5000}) {
    std::vector<uint64_t> numbers(size);
    tree.resize(size);
    for (size_t i = 0; i < size; ++i) tree.assign(i, numbers[i] = random() % 1000);
    tree.build();
    for (int change = 0; change < 200; ++change) {
      ASSERT_EQ(tree.min(), *std::min_element(numbers.begin(), numbers.end())) << size;
      const auto smallest = std::min_element(numbers.begin(), numbers.end()) - numbers.begin();
      const size_t i = change % 2 == 0 ? static_cast<size_t>(smallest) : random() % size;
      const uint64_t value = random() % 8 == 0 ? MinTree::kInfinite : random() % 1000;
      numbers[i] = value;
      tree.set(i, value);
    }
  }
}

TEST(MinTree, IsInfiniteWhereNothingIsAssigned) {
  MinTree tree;
  for (const size_t size : {70, 3}) {
    tree.resize(size);
    tree.build();
    EXPECT_EQ(tree.min(), MinTree::kInfinite);
    tree.set(size - 1, 5);
    EXPECT_EQ(tree.min(), 5U);
  }
}

}  // namespace
}  // namespace meg::tokenizer::fast
