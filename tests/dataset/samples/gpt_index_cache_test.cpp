#include "libmeg/dataset/samples/gpt_index_cache.h"

#include <gtest/gtest.h>

#include "tests/dataset/samples/cache_fixture.h"

namespace meg {
namespace {

using GptIndexCacheTest = test::CacheTest;

TEST_F(GptIndexCacheTest, BuildsThenFinds) {
  expect_outcome(CacheOutcome::kBuilt);
  const auto built = contents();
  EXPECT_EQ(built.size(), 5u) << "four files of Megatron and the sidecar";
  expect_outcome(CacheOutcome::kFound);
  EXPECT_EQ(contents(), built);
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

TEST_F(GptIndexCacheTest, TheIndexStaysWhereTheFilesGo) {
  auto cache = open_cache();
  ASSERT_TRUE(cache.has_value());
  const GptIndex index = cache->index;
  cache = open_cache();
  std::filesystem::remove_all(cache_);
  EXPECT_EQ(index.start(0).entry, 0);
  EXPECT_LT(index.row_of(index.samples() - 1), index.samples());
}

}  // namespace
}  // namespace meg
