#include "libmeg/samples/sample_counts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string_view>

namespace meg::samples {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

BatchSchedule schedule(int64_t global_batch_size, std::optional<BatchRampup> rampup = {}) {
  return *BatchSchedule::create({.global_batch_size = global_batch_size,
                                 .micro_batch_size = 1,
                                 .data_parallel_size = 1,
                                 .rampup = rampup});
}

megatron::MegatronVersion revision(std::string_view name) {
  return *megatron::parse_megatron_version(name);
}

SampleCounts counts(const RunLength& length, const BatchSchedule& batches,
                    std::string_view name = "core_v0.19.0") {
  const auto result = count_samples(length, batches, revision(name));
  EXPECT_TRUE(result.has_value()) << result.status().message();
  return result.has_value() ? *result : SampleCounts();
}

std::string error(const RunLength& length, std::string_view name = "core_v0.19.0") {
  const auto result = count_samples(length, schedule(16), revision(name));
  EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument);
  return result.status().message();
}

TEST(SampleCounts, FollowFromSteps) {
  // The tutorial's 3200, 480 and 160 samples.
  const auto found =
      counts({.train_iters = 200, .eval_iters = 10, .eval_interval = 100}, schedule(16));
  EXPECT_EQ(found.train_iters, 200);
  EXPECT_THAT(found.samples, ElementsAre(3200, 480, 160));
}

TEST(SampleCounts, FollowFromSamples) {
  const auto found =
      counts({.train_samples = 1000, .eval_iters = 2, .eval_interval = 50}, schedule(16));
  EXPECT_EQ(found.train_iters, 62);
  EXPECT_THAT(found.samples, ElementsAre(1000, 64, 32));
}

TEST(SampleCounts, FullValidationAsksForOneEpoch) {
  RunLength length{.train_iters = 5};
  length.full_validation = true;
  EXPECT_THAT(counts(length, schedule(8)).samples, ElementsAre(40, std::nullopt, 800));
  EXPECT_THAT(error(length, "core_v0.5.0"), HasSubstr("`full_validation`"));
}

TEST(SampleCounts, SkipTrainEvaluatesOnceSinceCore016) {
  RunLength length{.train_iters = 5000};
  length.skip_train = true;
  EXPECT_EQ(counts(length, schedule(2)).samples[1], 200);
  EXPECT_EQ(counts(length, schedule(2), "core_v0.16.0").samples[1], 200);
  EXPECT_EQ(counts(length, schedule(2), "core_v0.15.3").samples[1], 1200);
  EXPECT_EQ(counts(length, schedule(2), "6ef5bdc").samples[1], 1200);
}

TEST(SampleCounts, EvaluationsBeforeAStepAreLeftOut) {
  RunLength length{.train_iters = 5000};
  length.start_eval_at_iter = 2500;
  EXPECT_EQ(counts(length, schedule(1)).samples[1], 400);
  length.start_eval_at_iter = 9000;
  EXPECT_EQ(counts(length, schedule(1)).samples[1], 0);
}

TEST(SampleCounts, EvaluationHasABatchSizeOfItsOwn) {
  RunLength length{.train_iters = 10, .eval_iters = 3};
  length.eval_global_batch_size = 5;
  EXPECT_THAT(counts(length, schedule(4)).samples, ElementsAre(40, 15, 15));
}

TEST(SampleCounts, AnEvaluationsBatchDividesIntoMicroBatches) {
  const auto batches = BatchSchedule::create(
      {.global_batch_size = 12, .micro_batch_size = 2, .data_parallel_size = 3});
  RunLength length{.train_iters = 10, .eval_iters = 3};
  for (const int64_t wrong : {0, 2, 15}) {
    length.eval_global_batch_size = wrong;
    const auto found = count_samples(length, *batches, megatron::newest_megatron_version());
    EXPECT_THAT(found.error().message(),
                HasSubstr("`eval_global_batch_size`: expected a multiple of 6"));
  }
  length.eval_global_batch_size = 18;
  EXPECT_EQ(count_samples(length, *batches, megatron::newest_megatron_version())->samples[2], 54);
}

TEST(SampleCounts, AnEvaluationHasAMicroBatchSizeOfItsOwn) {
  const auto batches = BatchSchedule::create(
      {.global_batch_size = 12, .micro_batch_size = 2, .data_parallel_size = 3});
  RunLength length{.train_iters = 10, .eval_iters = 3};
  const auto error = [&] {
    return count_samples(length, *batches, megatron::newest_megatron_version()).status().message();
  };
  length.eval_micro_batch_size = 4;
  EXPECT_EQ(error(), "");
  length.eval_micro_batch_size = 3;
  EXPECT_THAT(error(), HasSubstr("`global_batch_size` of an evaluation: expected a multiple of 9 "
                                 "(micro batch size 3 times data-parallel size 3), found 12"));
  length.eval_global_batch_size = 27;
  EXPECT_EQ(error(), "");
  length.eval_micro_batch_size = 0;
  EXPECT_EQ(error(), "`eval_micro_batch_size`: expected at least 1, found 0");
}

TEST(SampleCounts, NoEvaluationsAreAskedForOnlyWhereTheyAreNotCounted) {
  RunLength length{.train_iters = 5, .eval_interval = 0};
  length.full_validation = true;
  EXPECT_EQ(counts(length, schedule(8)).samples[1], std::nullopt);
  length.full_validation = false;
  length.skip_train = true;
  EXPECT_EQ(counts(length, schedule(2)).samples[1], 200);
  EXPECT_THAT(error(length, "core_v0.15.3"), HasSubstr("`eval_interval`"));
}

TEST(SampleCounts, ARampUpThatOutlastsTheRunCountsWholeUpToCore08) {
  // Batches of 2 and 4 up to sample 100, then 6: 25 + 13 steps walk through 102 samples.
  const BatchSchedule batches =
      schedule(6, BatchRampup{.start = 2, .increment = 2, .samples = 100});
  const RunLength length{.train_samples = 20, .eval_iters = 1, .eval_interval = 1};
  const SampleCounts later = counts(length, batches, "core_v0.9.0");
  const SampleCounts before = counts(length, batches, "core_v0.8.0");
  EXPECT_EQ(later.train_iters, batches.step_of(20));
  const int64_t walked = batches.step_of(100);
  const int64_t missing = batches.consumed_before(walked + 1) - 20;
  EXPECT_EQ(before.train_iters, walked - (missing + 5) / 6);
  EXPECT_NE(before.samples[1], later.samples[1]);
}

TEST(SampleCounts, ErrorsNameTheFlag) {
  EXPECT_EQ(error({}), "`train_iters` or `train_samples` is required");
  EXPECT_THAT(error({.train_iters = 1, .train_samples = 1}), HasSubstr("found both"));
  EXPECT_THAT(error({.train_iters = -1}), HasSubstr("`train_iters`: expected"));
  EXPECT_THAT(error({.train_samples = 0}), HasSubstr("`train_samples`: expected"));
  EXPECT_THAT(error({.train_iters = 1, .eval_iters = -1}), HasSubstr("`eval_iters`"));
  EXPECT_THAT(error({.train_iters = 1, .eval_iters = 1, .eval_interval = 0}),
              HasSubstr("`eval_interval`"));
}

TEST(SampleCounts, ProductsBeyondInt64AreErrors) {
  EXPECT_THAT(error({.train_iters = INT64_MAX / 8}), HasSubstr("2^63"));
  EXPECT_THAT(error({.train_iters = INT64_MAX / 16, .eval_iters = 32, .eval_interval = 1}),
              HasSubstr("2^63"));
  EXPECT_THAT(error({.train_iters = 1, .eval_iters = INT64_MAX}), HasSubstr("2^63"));
}

}  // namespace
}  // namespace meg::samples
