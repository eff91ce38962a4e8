#include "tests/emulation/fiber.h"

#include <gtest/gtest.h>

#include <string>

namespace meg::emulation {
namespace {

Fiber host;
Fiber* first = nullptr;
Fiber* second = nullptr;
std::string said;

void say_twice() {
  said += "a";
  first->hand_over_to(*second);
  said += "b";
  first->hand_over_to(host);
}

void say_between() {
  said += "-";
  second->hand_over_to(*first);
}

TEST(FiberTest, ContinuesWhereItYielded) {
  Fiber a(say_twice), b(say_between);
  first = &a;
  second = &b;
  host.hand_over_to(a);
  EXPECT_EQ(said, "a-b");
}

}  // namespace
}  // namespace meg::emulation
