#include "libmeg/text/nearest_name.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace meg::text {
namespace {

TEST(EditDistanceTest, CountsSingleEdits) {
  EXPECT_EQ(edit_distance("--input", "--input"), 0u);
  EXPECT_EQ(edit_distance("--imput", "--input"), 1u);
  EXPECT_EQ(edit_distance("--inputs", "--input"), 1u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
}

TEST(NearestNameTest, IsTheOneWithTheFewestEdits) {
  const std::vector<std::string_view> names = {"top_k", "top_p", "temperature"};
  EXPECT_EQ(nearest_name("topp", names), 1u);
  EXPECT_EQ(nearest_name("temprature", names), 2u);
  EXPECT_EQ(nearest_name("top_q", names), 0u) << "the first of equals";
}

TEST(NearestNameTest, IsMissingWhereNoneIsNear) {
  const std::vector<std::string_view> names = {"top_k", "top_p"};
  EXPECT_EQ(nearest_name("max_tokens", names), std::nullopt);
  EXPECT_EQ(nearest_name(std::string(1 << 20, 'x'), names), std::nullopt);
  EXPECT_EQ(nearest_name("top_k", {}), std::nullopt);
}

}  // namespace
}  // namespace meg::text
