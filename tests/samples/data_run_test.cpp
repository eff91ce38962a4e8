#include "libmeg/samples/data_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "libmeg/megatron/argument_values.h"
#include "tests/temp_folder.h"

namespace meg::samples {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

/// A run of 10 steps.
DataArgs short_run() {
  DataArgs args;
  args.data_path = {"p"};
  args.sequence_length = 8;
  args.length.train_iters = 10;
  args.micro_batch_size = 2;
  return args;
}

TEST(DataRunTest, CountsWhatTheLengthAsksFor) {
  DataArgs args = short_run();
  args.length.eval_iters = 3;
  args.length.eval_interval = 5;
  args.global_batch_size = 4;
  const auto run = resolve_data(args, std::nullopt);
  ASSERT_TRUE(run.has_value()) << run.error().message();
  EXPECT_EQ(run->train_iters, 10);
  // Evaluations after 5 and 10 steps and one before training: Megatron counts (10 / 5 + 1).
  EXPECT_THAT(run->config.samples, ElementsAre(40, 36, 12));
  ASSERT_TRUE(run->config.blend.has_value());
  EXPECT_THAT(run->config.blend->prefixes, ElementsAre("p"));
}

TEST(DataRunTest, ScheduleOfBatchSizesIsGivenInTokens) {
  DataArgs args = short_run();
  args.length.train_iters.reset();
  args.length.train_samples = 200;
  args.step_batch_size_schedule = " 0.4k:1E1, 0:2 \n1K:20";
  const auto run = resolve_data(args, std::nullopt);
  ASSERT_TRUE(run.has_value()) << run.error().message();
  EXPECT_EQ(run->batches.batch_size_after(49), 2);
  EXPECT_EQ(run->batches.batch_size_after(50), 10);
  EXPECT_EQ(run->batches.batch_size_after(125), 20);
  EXPECT_EQ(run->train_iters, 25 + 8 + 4);
  EXPECT_THAT(run->notes, IsEmpty());
}

TEST(DataRunTest, ScheduleOfBatchSizesTakesTheSizeOfACheckpointButNoOther) {
  DataArgs args = short_run();
  args.step_batch_size_schedule = "0:4";
  args.global_batch_size = 2;  // of micro-batches of 2: what Megatron writes where none was given
  const auto run = resolve_data(args, std::nullopt);
  ASSERT_TRUE(run.has_value()) << run.error().message();
  EXPECT_THAT(run->notes, ElementsAre(HasSubstr("20 samples, of which the run consumes 40")));
  args.global_batch_size = 4;
  EXPECT_THAT(resolve_data(args, std::nullopt).error().message(),
              HasSubstr("cannot be combined with `global_batch_size`"));
}

TEST(DataRunTest, RefusesSchedulesOfBatchSizesThatAreNone) {
  for (const char* const schedule :
       {"", " , ", "8", "0:", ":8", "0:x", "0:-8", "0:nan", "0:inf", "0:9100T", "0:8Q"}) {
    DataArgs args = short_run();
    args.step_batch_size_schedule = schedule;
    const auto run = resolve_data(args, std::nullopt);
    ASSERT_FALSE(run.has_value()) << schedule;
    EXPECT_THAT(run.error().message(), StartsWith("`step_batch_size_schedule`: expected "))
        << schedule;
  }
  DataArgs args = short_run();
  args.step_batch_size_schedule = "0:2";
  args.rampup_batch_size = {"2", "2", "20"};
  EXPECT_THAT(resolve_data(args, std::nullopt).error().message(),
              HasSubstr("cannot be combined with `rampup_batch_size`"));
}

TEST(DataRunTest, ArgumentsAreTakenByTheirFields) {
  megatron::ArgumentValues values;
  values.set("seq_length", {int64_t{64}});
  values.set("micro_batch_size", {int64_t{4}});
  values.set("train_samples", {int64_t{100}});
  values.set("dataloader_type", {std::string("cyclic")});
  const megatron::FieldLookup fields = values.lookup();
  megatron::FieldReader reader(fields);
  DataArgs args;
  args.take_fields(reader);
  ASSERT_TRUE(reader.status().ok()) << reader.status().message();
  args.data_path = {"p"};
  const auto run = resolve_data(args, std::nullopt);
  ASSERT_TRUE(run.has_value()) << run.error().message();
  EXPECT_EQ(run->config.sequence_length, 64);
  EXPECT_EQ(run->micro_batch_size, 4);
  EXPECT_EQ(run->train_iters, 25);
  EXPECT_EQ(run->dataloader_type, DataloaderType::kCyclic);
}

TEST(DataRunTest, LazyAndCachedAreOneFormat) {
  DataArgs args = short_run();
  EXPECT_FALSE(resolve_data(args, std::nullopt)->config.format.has_value());
  args.data_impl = "mmap";
  EXPECT_EQ(resolve_data(args, std::nullopt)->config.format, dataset::IndexFormat::kMmididx);
  for (const char* const impl : {"lazy", "cached"}) {
    args.data_impl = impl;
    EXPECT_EQ(resolve_data(args, std::nullopt)->config.format, dataset::IndexFormat::kTntidx);
  }
}

TEST(DataRunTest, TheWorldSizeOfTheArgumentsComesFirst) {
  DataArgs args = short_run();
  args.tensor_model_parallel_size = 2;
  EXPECT_EQ(resolve_data(args, "8")->data_parallel_size, 4);
  args.world_size = 6;
  EXPECT_EQ(resolve_data(args, "8")->data_parallel_size, 3);
}

TEST(DataRunTest, SplitsFileIsReadForItsForm) {
  const test::TempFolder folder;
  const std::string path = folder.path("splits.json");
  DataArgs args = short_run();
  args.data_path.clear();
  args.per_split_data_args_path = path;
  std::ofstream(path) << R"({"train": ["1", "a", "2", "b"], "valid": "c", "test": null})";
  const auto run = resolve_data(args, std::nullopt);
  ASSERT_TRUE(run.has_value()) << run.error().message();
  EXPECT_THAT(run->config.per_split[0]->prefixes, ElementsAre("a", "b"));
  EXPECT_THAT(run->config.per_split[1]->prefixes, ElementsAre("c"));
  EXPECT_FALSE(run->config.per_split[2].has_value());
  for (const char* wrong : {"", "[]", "\"a b\"", "{\"train\": 3}", "{\"train\": [3]}",
                            "{\"train\": ", "{\"train\": [[\"a\"]]}"}) {
    std::ofstream(path) << wrong;
    const auto refused = resolve_data(args, std::nullopt);
    ASSERT_FALSE(refused.has_value()) << wrong;
    EXPECT_THAT(refused.error().message(), HasSubstr(path)) << wrong;
  }
}

TEST(DataRunTest, ADeeplyNestedSplitsFileIsRefused) {
  const test::TempFolder folder;
  DataArgs args = short_run();
  args.data_path.clear();
  args.per_split_data_args_path = folder.path("splits.json");
  constexpr size_t kDepth = 1000000;
  std::ofstream(folder.path("splits.json"))
      << "{\"train\": " << std::string(kDepth, '[') << std::string(kDepth, ']') << "}";
  const auto run = resolve_data(args, std::nullopt);
  ASSERT_FALSE(run.has_value());
  EXPECT_THAT(run.error().message(), HasSubstr("found a value of type array as train"));
}

TEST(DataRunTest, WhatIsMissingIsNamed) {
  const auto missing = [](void (*remove)(DataArgs&)) {
    DataArgs args = short_run();
    remove(args);
    const auto run = resolve_data(args, std::nullopt);
    return run.has_value() ? "" : run.error().message();
  };
  EXPECT_THAT(missing([](DataArgs& args) { args.data_path.clear(); }), HasSubstr("`data_path`"));
  EXPECT_THAT(missing([](DataArgs& args) { args.sequence_length.reset(); }),
              HasSubstr("`seq_length`"));
  EXPECT_THAT(missing([](DataArgs& args) { args.micro_batch_size.reset(); }),
              HasSubstr("`micro_batch_size`"));
}

}  // namespace
}  // namespace meg::samples
