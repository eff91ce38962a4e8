#include "libmeg/text/printable.h"

#include <gtest/gtest.h>

namespace meg::text {
namespace {

TEST(Printable, NamesThatNeedNoQuotesStandAsTheyAre) {
  EXPECT_EQ(printable_name("part-0001.jsonl"), "part-0001.jsonl");
  EXPECT_EQ(printable_name("a\nb"), "\"a\\nb\"");
  EXPECT_EQ(printable_name("say \"a\""), "\"say \\\"a\\\"\"");
}

TEST(Printable, NoLongNamePassesAsItIs) {
  // Cut, spelled out and quoted, each of them has another size, one that of the name itself.
  for (size_t size = 9; size < 60; ++size) {
    const std::string name(size, '\n');
    EXPECT_EQ(printable_name(name, 8), "\"\\n\\n\\n\\n\\n\\n\\n\\n...\"");
  }
}

}  // namespace
}  // namespace meg::text
