#include "libmeg/parallel/process_group.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libmeg/libtorch/torch_guard.h"

namespace meg::parallel {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(ProcessGroupTest, LatecomerMissingIsAnErrorNotAnException) {
  LaunchEnvironment environment;
  environment.world_size = 2;
  environment.master_port = 0;  // any free port
  const auto group = ProcessGroup::connect(environment, std::chrono::milliseconds(200));
  ASSERT_FALSE(group.has_value());
  EXPECT_EQ(group.error().code(), StatusCode::kInternal);
}

TEST(ProcessGroupTest, OneRankAloneSumsToItself) {
  LaunchEnvironment environment;
  environment.master_port = 0;
  const auto group = ProcessGroup::connect(environment, std::chrono::seconds(30));
  ASSERT_TRUE(group.has_value()) << group.error().message();
  const at::Tensor tensor = at::arange(10);
  ASSERT_TRUE((*group)->all_reduce_sum(tensor).ok());
  EXPECT_TRUE(at::equal(tensor, at::arange(10)));
}

TEST(TorchGuardTest, TurnsLibTorchsErrorIntoOneLine) {
  const Status status = libtorch::torch_guard([] {
    at::ones({2}).view({3});
    return Status();
  });
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_THAT(status.message(), HasSubstr("shape '[3]' is invalid"));
  EXPECT_THAT(status.message(), Not(HasSubstr("\n")));
}

TEST(TorchGuardTest, PassesAStatusOn) {
  EXPECT_TRUE(libtorch::torch_guard([] { return Status(); }).ok());
  EXPECT_EQ(libtorch::torch_guard([] { return Status(StatusCode::kNotFound, "x"); }).message(),
            "x");
  EXPECT_EQ(libtorch::torch_guard([]() -> Status { throw std::bad_alloc(); }).code(),
            StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace meg::parallel
