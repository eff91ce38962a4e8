#include "libmeg/text/text_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace meg::text {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Place = TextList::Place;

std::vector<std::string_view> texts_of(const TextList& list) { return {list.begin(), list.end()}; }

TEST(TextList, GivesTheViewsThatItTook) {
  const std::string line(3 << 20, 'x');
  const std::string unescaped(1 << 20, 'y');
  std::mt19937 random(1);
  for (const size_t longest : {1, 3, 200, 40000}) {
    TextList list;
    list.restart(line.data(), unescaped.data());
    std::vector<std::string_view> expected;
    size_t in_line = 0;
    size_t in_unescaped = 0;
    for (int i = 0; i < 20; ++i) {
      const bool has_escapes = random() % 3 == 0;
      size_t& at = has_escapes ? in_unescaped : in_line;
      at += random() % longest;
      const size_t length = random() % longest;
      expected.push_back(std::string_view(has_escapes ? unescaped : line).substr(at, length));
      list.push_back(has_escapes ? Place::kUnescaped : Place::kLine, expected.back());
      at += length;
    }
    const std::vector<std::string_view> found = texts_of(list);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].data(), expected[i].data());
      EXPECT_EQ(found[i].size(), expected[i].size());
    }
    EXPECT_EQ(list.size(), expected.size());
    EXPECT_EQ(list.front().data(), expected.front().data());
  }
}

TEST(TextList, ForgetsTheLineBefore) {
  const std::string_view first = "ab";
  const std::string_view second = "cd";
  TextList list;
  EXPECT_THAT(texts_of(list), IsEmpty());
  list.restart(first.data(), nullptr);
  list.push_back(Place::kLine, first);
  list.restart(second.data(), nullptr);
  EXPECT_TRUE(list.empty());
  list.push_back(Place::kLine, second.substr(1));
  EXPECT_THAT(texts_of(list), ElementsAre("d"));
}

}  // namespace
}  // namespace meg::text
