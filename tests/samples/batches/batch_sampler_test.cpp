#include "libmeg/samples/batches/batch_sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace meg::samples {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Batches = std::vector<std::vector<int64_t>>;

Batches batches_of(const BatchSampler::Options& options, int most = 1000) {
  auto sampler = BatchSampler::create(options);
  EXPECT_TRUE(sampler.has_value()) << sampler.error().message();
  Batches batches;
  std::vector<int64_t> samples;
  while (batches.size() < static_cast<size_t>(most) && (*sampler)->next(samples)) {
    batches.push_back(samples);
  }
  return batches;
}

TEST(SingleSampler, RanksTakeTheirMicroBatchesOfEachBatchInTurn) {
  BatchSampler::Options options{
      .total_samples = 12, .micro_batch_size = 2, .data_parallel_size = 3};
  EXPECT_EQ(batches_of(options), (Batches{{0, 1}, {6, 7}}));
  options.data_parallel_rank = 2;
  EXPECT_EQ(batches_of(options), (Batches{{4, 5}, {10, 11}}));
}

TEST(SingleSampler, AnIncompleteLastBatchIsDropped) {
  EXPECT_EQ(batches_of({.total_samples = 7, .micro_batch_size = 2, .data_parallel_size = 2}),
            (Batches{{0, 1}}));
  EXPECT_TRUE(batches_of({.total_samples = 3, .micro_batch_size = 4}).empty());
}

TEST(SingleSampler, ContinuesAfterAnyNumberOfConsumedSamples) {
  EXPECT_EQ(batches_of({.total_samples = 10,
                        .consumed_samples = 3,
                        .micro_batch_size = 1,
                        .data_parallel_rank = 1,
                        .data_parallel_size = 2}),
            (Batches{{4}, {6}, {8}}));
}

TEST(SingleSampler, HugeNumbersDoNotOverflow) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(batches_of({.total_samples = kMost,
                        .consumed_samples = kMost - 3,
                        .micro_batch_size = 1,
                        .data_parallel_size = 2}),
            (Batches{{kMost - 3}}));
}

TEST(FullValidationSampler, DealsEverySampleOnceOneAtATime) {
  BatchSampler::Options options{.type = DataloaderType::kFullValidation,
                                .total_samples = 5,
                                .micro_batch_size = 4,
                                .data_parallel_size = 2};
  EXPECT_EQ(batches_of(options), (Batches{{0}, {2}, {4}}));
  options.data_parallel_rank = 1;
  EXPECT_EQ(batches_of(options), (Batches{{1}, {3}}));
  options.total_samples = 1;
  EXPECT_TRUE(batches_of(options).empty());
}

// The tables below are MegatronPretrainingRandomSampler's at core_v0.19.0.

TEST(CyclicSampler, ShardingShufflesEachRanksPartInEachEpoch) {
  BatchSampler::Options options{.type = DataloaderType::kCyclic,
                                .total_samples = 11,
                                .micro_batch_size = 2,
                                .data_parallel_size = 2};
  EXPECT_EQ(batches_of(options, 6), (Batches{{0, 1}, {3, 2}, {1, 3}, {2, 0}, {0, 1}, {3, 2}}));
  options.data_parallel_rank = 1;
  EXPECT_EQ(batches_of(options, 6), (Batches{{4, 5}, {7, 6}, {5, 7}, {6, 4}, {4, 5}, {7, 6}}));
}

TEST(CyclicSampler, ContinuesWithinAnEpoch) {
  BatchSampler::Options options{.type = DataloaderType::kCyclic,
                                .total_samples = 11,
                                .micro_batch_size = 2,
                                .data_parallel_rank = 1,
                                .data_parallel_size = 2};
  const Batches all = batches_of(options, 40);
  for (int64_t steps = 0; steps < 30; ++steps) {
    options.consumed_samples = 4 * steps;
    const Batches rest = batches_of(options, 10);
    EXPECT_EQ(rest, Batches(all.begin() + steps, all.begin() + steps + 10));
  }
}

TEST(CyclicSampler, WithoutShardingTheFirstRanksTakeTheRemainderBeforeTheirNextEpoch) {
  BatchSampler::Options options{.type = DataloaderType::kCyclic,
                                .total_samples = 11,
                                .data_parallel_size = 4,
                                .data_sharding = false};
  EXPECT_EQ(batches_of(options, 6), (Batches{{10}, {5}, {9}, {7}, {1}, {1}}));
  options.data_parallel_rank = 3;
  EXPECT_EQ(batches_of(options, 6), (Batches{{3}, {1}, {3}, {8}, {0}, {2}}));
}

struct Refusal {
  BatchSampler::Options options;
  std::string message;
};

TEST(BatchSampler, RefusesNumbersOutOfRange) {
  const std::vector<Refusal> refusals = {
      {{.total_samples = 0}, "samples of the dataset: expected 1 or more, found 0"},
      {{.total_samples = 1, .consumed_samples = -1}, "consumed samples: expected 0 or more"},
      {{.total_samples = 1, .micro_batch_size = 0}, "micro batch size: expected 1 or more"},
      {{.total_samples = 1, .data_parallel_size = 0}, "data-parallel size: expected 1 or more"},
      {{.total_samples = 1, .data_parallel_rank = 2, .data_parallel_size = 2},
       "data-parallel rank: expected 0 to 1, found 2"},
      {{.total_samples = 1, .data_parallel_rank = -1}, "data-parallel rank: expected 0 to 0"},
      {{.total_samples = 5, .consumed_samples = 5},
       "no samples are left: expected fewer consumed samples than the 5 of the dataset, found 5"},
      {{.total_samples = 5, .micro_batch_size = int64_t{1} << 62, .data_parallel_size = 4},
       "micro batch size 4611686018427387904 times data-parallel size 4: expected at most"},
      {{.type = DataloaderType::kCyclic,
        .total_samples = 5,
        .micro_batch_size = 2,
        .data_parallel_size = 3},
       "expected at least 6 samples (micro batch size 2 times data-parallel size 3), found 5"},
      {{.type = DataloaderType::kCyclic,
        .total_samples = 10,
        .consumed_samples = 21,
        .micro_batch_size = 2},
       "consumed samples of the epoch: expected a multiple of 2 (micro batch size 2 times "
       "data-parallel size 1), found 1 (21 less whole epochs of 10)"},
      {{.type = DataloaderType::kCyclic, .total_samples = int64_t{1} << 40},
       "expected at most 4294967296 samples to shuffle, found 1099511627776"},
  };
  for (const Refusal& refusal : refusals) {
    const auto sampler = BatchSampler::create(refusal.options);
    ASSERT_FALSE(sampler.has_value()) << refusal.message;
    EXPECT_EQ(sampler.error().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(sampler.error().message(), HasSubstr(refusal.message));
  }
}

}  // namespace
}  // namespace meg::samples
