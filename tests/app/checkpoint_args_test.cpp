#include "libmeg/app/checkpoint_args.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libmeg/megatron/argument_table.h"

namespace meg::app {
namespace {

using ::testing::HasSubstr;

megatron::ArgumentValues training_defaults() {
  return megatron::ArgumentValues::defaults(
      megatron::argument_rows(megatron::ArgumentFamily::kTraining));
}

TEST(CheckpointArgsTest, NamesTheFlagThatItNeeds) {
  megatron::ArgumentValues args = training_defaults();
  const Status status = take_checkpoint_args(args).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("`load`"));
}

TEST(CheckpointArgsTest, TakesTheModelAndLeavesTheRun) {
  megatron::ArgumentValues args = training_defaults();
  args.set("load", std::string(MEG_SOURCE_DIR "/testdata/checkpoint"));
  const auto micro_batch_size = args.field("micro_batch_size");
  const Status status = take_checkpoint_args(args).status();
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(args.field("num_layers"), megatron::FieldValue(int64_t{4}));
  EXPECT_EQ(args.field("hidden_size"), megatron::FieldValue(int64_t{8}));
  EXPECT_EQ(args.field("micro_batch_size"), micro_batch_size);
}

TEST(CheckpointArgsTest, AFlagThatWasGivenStays) {
  megatron::ArgumentValues args = training_defaults();
  args.set("load", std::string(MEG_SOURCE_DIR "/testdata/checkpoint"));
  args.give(*megatron::find_argument(megatron::ArgumentFamily::kTraining, "hidden_size"),
            int64_t{16});
  ASSERT_TRUE(take_checkpoint_args(args).has_value());
  EXPECT_EQ(args.field("hidden_size"), megatron::FieldValue(int64_t{16}));
}

}  // namespace
}  // namespace meg::app
