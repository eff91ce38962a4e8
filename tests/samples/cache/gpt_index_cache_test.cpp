#include "libmeg/samples/cache/gpt_index_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "libmeg/dataset/index_format.h"
#include "libmeg/io/file_lock.h"
#include "libmeg/samples/cache/internal/cache_sidecar.h"
#include "tests/samples/cache/cache_fixture.h"

namespace meg::samples {
namespace {

using testing::HasSubstr;
using GptIndexCacheTest = test::CacheTest;

TEST_F(GptIndexCacheTest, BuildsThenFinds) {
  expect_outcome(CacheOutcome::kBuilt);
  const auto built = contents();
  EXPECT_EQ(built.size(), 5u) << "four files of Megatron and the sidecar";
  expect_outcome(CacheOutcome::kFound);
  EXPECT_TRUE(contents() == built);
}

TEST_F(GptIndexCacheTest, WhatIsFoundIsWhatIsBuiltInMemory) {
  const auto built = open_cache();
  const auto found = open_cache();
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->plan.epochs, 2);
  EXPECT_GE(found->plan.samples, 150);
  const auto memory = build_gpt_index_in_memory(found->plan, dataset_.sequence_lengths(),
                                                request_.range, request_.seed);
  ASSERT_TRUE(memory.has_value()) << memory.error().message();
  for (const GptIndexCache* cache : {&*built, &*memory}) {
    ASSERT_EQ(cache->index.samples(), found->index.samples());
    EXPECT_TRUE(std::ranges::equal(cache->index.documents(), found->index.documents()));
    for (int64_t row = 0; row <= found->index.samples(); ++row) {
      EXPECT_EQ(cache->index.start(row).entry, found->index.start(row).entry);
      EXPECT_EQ(cache->index.start(row).offset, found->index.start(row).offset);
    }
    for (int64_t sample = 0; sample < found->index.samples(); ++sample) {
      EXPECT_EQ(cache->index.row_of(sample), found->index.row_of(sample));
    }
  }
}

TEST_F(GptIndexCacheTest, MoreSamplesThanMemoryAreAnError) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers end the process instead";
#endif
  GptIndexPlan plan;
  plan.sequences = 10;
  plan.sequence_length = 1;
  for (const int64_t epochs : {int64_t{1} << 44, int64_t{1} << 58}) {
    plan.epochs = epochs;
    plan.samples = epochs;
    const auto memory =
        build_gpt_index_in_memory(plan, dataset_.sequence_lengths(), {.begin = 0, .end = 10}, 1);
    ASSERT_FALSE(memory.has_value());
    EXPECT_EQ(memory.error().code(), StatusCode::kResourceExhausted);
  }
}

TEST_F(GptIndexCacheTest, TheIndexStaysWhereTheFilesGo) {
  auto cache = open_cache();
  ASSERT_TRUE(cache.has_value());
  const GptIndex index = cache->index;
  cache = open_cache();
  std::filesystem::remove_all(cache_);
  EXPECT_EQ(index.start(0).entry, 0);
  EXPECT_LT(index.row_of(index.samples() - 1), index.samples());
}

TEST_F(GptIndexCacheTest, ACacheOfAnotherProgramIsUsedAndLeftAlone) {
  expect_outcome(CacheOutcome::kBuilt);
  std::filesystem::remove(files().sidecar);
  expect_outcome(CacheOutcome::kFound);
  EXPECT_EQ(contents().size(), 4u);
}

TEST_F(GptIndexCacheTest, ASampleIndexMayHaveEitherType) {
  const auto in = [&](std::string_view version) {
    const auto cache = open_gpt_index_cache(request_, *megatron::parse_megatron_version(version));
    EXPECT_TRUE(cache.has_value());
    return cache->outcome;
  };
  EXPECT_EQ(in("core_v0.9.0"), CacheOutcome::kBuilt);
  std::filesystem::remove(files().sidecar);
  EXPECT_EQ(in("core_v0.15.3"), CacheOutcome::kFound);
}

TEST_F(GptIndexCacheTest, WithoutADescriptionThreeFilesAreWhole) {
  request_.description.clear();
  request_.places.back().description.clear();
  expect_outcome(CacheOutcome::kBuilt);
  EXPECT_EQ(contents().size(), 4u);
  expect_outcome(CacheOutcome::kFound);
  // Such names do not contain the split's share of the dataset.
  request_.range = {.begin = 0, .end = 180};
  EXPECT_THAT(expect_outcome(CacheOutcome::kRebuilt),
              HasSubstr("[0, 180), found one of [10, 190)"));
  expect_outcome(CacheOutcome::kFound);
  std::filesystem::remove(files().sidecar);
  request_.range = {.begin = 20, .end = 200};
  expect_outcome(CacheOutcome::kRebuilt);
}

TEST_F(GptIndexCacheTest, PlacesAreSearchedInOrderAndTheLastIsBuilt) {
  const GptIndexCacheFiles first = test::core_files(folder_.path("data/index-cache"), "abc");
  const GptIndexCacheFiles last = request_.places[0];
  request_.places = {first, last};
  expect_outcome(CacheOutcome::kBuilt);
  EXPECT_FALSE(std::filesystem::exists(folder_.path("data"))) << "only the last place is written";

  request_.places = {first};
  expect_outcome(CacheOutcome::kBuilt);
  request_.places = {first, last};
  auto cache = open_cache();
  ASSERT_TRUE(cache.has_value());
  EXPECT_EQ(cache->files.sidecar, first.sidecar);

  // What cannot be used in the first place is looked for in the last one.
  test::write_file(first.description, "another");
  cache = open_cache();
  ASSERT_TRUE(cache.has_value());
  EXPECT_EQ(cache->outcome, CacheOutcome::kFound);
  EXPECT_EQ(cache->files.sidecar, last.sidecar);
  std::filesystem::remove_all(cache_);
  EXPECT_THAT(expect_outcome(CacheOutcome::kRebuilt), HasSubstr(first.description));
  EXPECT_EQ(test::read_file(first.description), "another");
}

TEST_F(GptIndexCacheTest, OtherOptionsUnderTheSameNameAreRebuilt) {
  expect_outcome(CacheOutcome::kBuilt);
  request_.drop_last_partial = false;
  EXPECT_THAT(expect_outcome(CacheOutcome::kRebuilt), HasSubstr("last partial sample kept"));
  request_.extra_token = false;
  EXPECT_THAT(expect_outcome(CacheOutcome::kRebuilt), HasSubstr("no extra token"));
  expect_outcome(CacheOutcome::kFound);
  // Without a sidecar the shapes decide.
  std::filesystem::remove(files().sidecar);
  request_.drop_last_partial = true;
  EXPECT_THAT(expect_outcome(CacheOutcome::kRebuilt), HasSubstr("with these options"));
}

TEST_F(GptIndexCacheTest, TouchedDataWithTheSameLengthsIsFresh) {
  using namespace std::chrono_literals;
  const auto idx = prefix_ + ".idx";
  std::filesystem::last_write_time(idx, std::filesystem::file_time_type::clock::now() - 10h);
  expect_outcome(CacheOutcome::kBuilt);
  const auto before = contents();
  std::filesystem::last_write_time(idx, std::filesystem::file_time_type::clock::now() - 5h);
  expect_outcome(CacheOutcome::kFound);
  const auto after = contents();
  EXPECT_EQ(after.size(), before.size());
  EXPECT_TRUE(after != before) << "the sidecar has the new time";
  const auto written = std::filesystem::last_write_time(files().sidecar);
  expect_outcome(CacheOutcome::kFound);
  EXPECT_EQ(std::filesystem::last_write_time(files().sidecar), written) << "and is left alone";
}

// In a folder of tens of thousands of caches, all of which are touched, a listing for each takes
// minutes. Whether the folder was listed shows in what is removed then.
TEST_F(GptIndexCacheTest, TouchedDataIsNotedWithoutListingTheFolder) {
  using namespace std::chrono_literals;
  const auto idx = prefix_ + ".idx";
  const auto touch = [&](std::chrono::hours ago) {
    std::filesystem::last_write_time(idx, std::filesystem::file_time_type::clock::now() - ago);
  };
  touch(10h);
  expect_outcome(CacheOutcome::kBuilt);
  const std::string partial = files().sidecar + ".partial-1-1";
  test::write_file(partial, "of a killed process");
  touch(5h);
  expect_outcome(CacheOutcome::kFound);
  EXPECT_TRUE(std::filesystem::exists(partial));
  // A killed process leaves its lock, too, and that is what its partial files are looked for by.
  test::write_file(files().sidecar + ".lock", "");
  touch(4h);
  expect_outcome(CacheOutcome::kFound);
  EXPECT_FALSE(std::filesystem::exists(partial));
  EXPECT_FALSE(std::filesystem::exists(files().sidecar + ".lock"));
}

TEST_F(GptIndexCacheTest, AYoungTimeIsNotKept) {
  std::filesystem::last_write_time(prefix_ + ".idx", std::filesystem::file_time_type::clock::now());
  expect_outcome(CacheOutcome::kBuilt);
  const auto sidecar = read_sidecar(files().sidecar);
  ASSERT_TRUE(sidecar.has_value());
  EXPECT_EQ(sidecar->idx.mtime_ns, kNoTime) << "the next change may bear the same time";
  expect_outcome(CacheOutcome::kFound);
}

TEST_F(GptIndexCacheTest, AnEmptyIndexIsAnIndex) {
  request_.samples.reset();
  request_.sequence_length = 1'000'000;
  expect_outcome(CacheOutcome::kBuilt);
  const auto cache = open_cache();
  ASSERT_TRUE(cache.has_value());
  EXPECT_EQ(cache->outcome, CacheOutcome::kFound);
  EXPECT_EQ(cache->index.samples(), 0);
}

TEST_F(GptIndexCacheTest, RangesOutsideTheDatasetAreErrors) {
  for (const dataset::SequenceRange range :
       {dataset::SequenceRange{-1, 10}, dataset::SequenceRange{0, kSequences + 1},
        dataset::SequenceRange{5, 5}, dataset::SequenceRange{6, 5},
        dataset::SequenceRange{0, INT64_MAX}, dataset::SequenceRange{INT64_MIN, 0}}) {
    request_.range = range;
    const auto cache = open_cache();
    ASSERT_FALSE(cache.has_value());
    EXPECT_EQ(cache.error().code(), StatusCode::kOutOfRange) << cache.error().message();
    EXPECT_THAT(cache.error().message(), HasSubstr(prefix_));
  }
  EXPECT_FALSE(std::filesystem::exists(cache_));
}

TEST_F(GptIndexCacheTest, WhoWaitsForABuilderIsAskedWhetherToWaitOn) {
  auto builder = io::FileLock::acquire(files().sidecar + ".lock");
  ASSERT_TRUE(builder.has_value());
  std::vector<std::string> asked;
  request_.waiting = [&](const std::string& cache) {
    asked.push_back(cache);
    return asked.size() < 2;
  };
  EXPECT_EQ(open_cache().status().code(), StatusCode::kCancelled);
  EXPECT_THAT(asked, testing::ElementsAre(files().indices.sample_index, asked[0]));
  request_.waiting = [&](const std::string&) {
    *builder = io::FileLock();
    return true;
  };
  expect_outcome(CacheOutcome::kBuilt);
}

TEST_F(GptIndexCacheTest, NegativeLengthsAreErrors) {
  std::string idx = test::read_file(prefix_ + ".idx");
  store_le<int32_t>(idx.data() + dataset::kIndexHeaderSize + 4 * 57, -3);
  test::write_file(prefix_ + ".idx", idx);
  open_dataset();
  const auto cache = open_cache();
  ASSERT_FALSE(cache.has_value());
  EXPECT_EQ(cache.error().code(), StatusCode::kCorruption);
  EXPECT_THAT(cache.error().message(), HasSubstr(".idx: sequence 57: length: expected"));
  EXPECT_THAT(cache.error().message(), HasSubstr("found -3"));
  EXPECT_TRUE(contents().empty()) << "no lock is left";
  request_.range = {.begin = 58, .end = kSequences};
  EXPECT_TRUE(open_cache().has_value()) << "only the split's lengths count";
}

TEST_F(GptIndexCacheTest, ASplitWithoutTokensIsAnError) {
  test::write_dataset(prefix_, std::vector<int32_t>(kSequences, 0));
  open_dataset();
  const auto cache = open_cache();
  ASSERT_FALSE(cache.has_value());
  EXPECT_EQ(cache.error().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(cache.error().message(), HasSubstr("[10, 190): expected tokens, found none"));
}

TEST_F(GptIndexCacheTest, RequestsThatCannotBePlannedAreErrors) {
  request_.sequence_length = 0;
  const auto cache = open_cache();
  ASSERT_FALSE(cache.has_value());
  EXPECT_EQ(cache.error().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(cache.error().message(), HasSubstr(prefix_));
}

}  // namespace
}  // namespace meg::samples
