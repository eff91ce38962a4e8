// Where torch.randperm changes its method: 0.9 GB and half a minute. Numbers of PyTorch 2.11.

#include <gtest/gtest.h>

#include <vector>

#include "libmeg/numpy/torch_randperm.h"

namespace meg::numpy {
namespace {

using Order = std::vector<uint32_t>;

/// The first and the last six.
Order ends(const Order& order) {
  Order found(order.begin(), order.begin() + 6);
  found.insert(found.end(), order.end() - 6, order.end());
  return found;
}

TEST(TorchRandpermSlow, Draws64BitWordsForLargeCounts) {
  Order order(kWideRandperm - 1);
  torch_randperm(7, order);
  EXPECT_EQ(ends(order), (Order{112993252, 117420445, 128500308, 81485129, 164966415, 121216550,
                                13875693, 59029935, 12751236, 89039895, 181297428, 34850603}));
  order.resize(kWideRandperm);
  torch_randperm(7, order);
  EXPECT_EQ(ends(order), (Order{93268064, 63068233, 165770247, 155513421, 157420379, 198105859,
                                209664052, 127074715, 196710123, 205120279, 143705087, 187216702}));
}

}  // namespace
}  // namespace meg::numpy
