#include "libmeg/checkpoint/dialects/mp_rank/internal/optimizer/flat_buffer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libmeg/checkpoint/dialects/mp_rank/internal/optimizer/flat_state.h"

namespace meg::checkpoint {
namespace {

using Places = std::vector<FlatBuffer::Place>;

std::vector<FlatParameter> parameters(std::initializer_list<int64_t> elements) {
  std::vector<FlatParameter> made;
  for (const int64_t count : elements) made.push_back({.elements = count});
  return made;
}

/// Unpadded and padded lengths.
std::vector<std::pair<int64_t, int64_t>> lengths(const FlatBuffer& buffer) {
  std::vector<std::pair<int64_t, int64_t>> found;
  for (const FlatBuffer::Bucket& bucket : buffer.buckets) {
    found.emplace_back(bucket.elements, bucket.padded);
  }
  return found;
}

FlatBufferRules aligned(int64_t divisor) {
  FlatBufferRules rules;
  rules.alignment = 64;
  rules.bucket_divisor = divisor;
  rules.splits_shared_embedding = true;
  return rules;
}

// The expected numbers are those of _ParamAndGradBuffer of core 0.16.1 for the same parameters.

TEST(FlatBuffer, HoldsParametersInReverseOrder) {
  const FlatBuffer buffer = lay_out_flat_buffer(parameters({100, 30, 7}), {});
  EXPECT_EQ(buffer.places, (Places{{0, 37}, {0, 7}, {0, 0}}));
  EXPECT_THAT(lengths(buffer), testing::ElementsAre(std::pair(137, 137)));
}

TEST(FlatBuffer, AlignsParametersAndPadsItsEnd) {
  const FlatBuffer buffer = lay_out_flat_buffer(parameters({100, 30, 7}), aligned(128));
  EXPECT_EQ(buffer.places, (Places{{0, 128}, {0, 64}, {0, 0}}));
  EXPECT_THAT(lengths(buffer), testing::ElementsAre(std::pair(228, 256)));
}

TEST(FlatBuffer, BeginsABucketWhereOneIsFull) {
  FlatBufferRules rules = aligned(128);
  rules.bucket_size = 130;
  const FlatBuffer buffer = lay_out_flat_buffer(parameters({100, 30, 7, 65}), rules);
  EXPECT_EQ(buffer.places, (Places{{1, 64}, {1, 0}, {0, 128}, {0, 0}}));
  EXPECT_THAT(lengths(buffer), testing::ElementsAre(std::pair(135, 256), std::pair(164, 256)));
}

TEST(FlatBuffer, GivesASharedEmbeddingABucketOfItsOwn) {
  std::vector<FlatParameter> all = parameters({96, 30, 7});
  all[0].is_shared_embedding = true;
  const FlatBuffer first = lay_out_flat_buffer(all, aligned(128));
  // What aligns the embedding counts to the bucket before it.
  EXPECT_THAT(lengths(first), testing::ElementsAre(std::pair(128, 128), std::pair(96, 128)));
  EXPECT_EQ(first.coalesced_places(), (Places{{0, 128}, {0, 64}, {0, 0}}));

  all = parameters({30, 7, 96});
  all[2].is_shared_embedding = true;
  const FlatBuffer last = lay_out_flat_buffer(all, aligned(128));
  EXPECT_THAT(lengths(last), testing::ElementsAre(std::pair(96, 128), std::pair(94, 128)));
  EXPECT_EQ(last.coalesced_places(), (Places{{0, 96 + 64}, {0, 96}, {0, 0}}));
}

TEST(FlatBuffer, CountsPaddingBeforeASharedEmbeddingAsCore012Did) {
  std::vector<FlatParameter> all = parameters({96, 30, 7});
  all[0].is_shared_embedding = true;
  FlatBufferRules rules = aligned(384);
  rules.split_divisor = 3;
  EXPECT_THAT(lengths(lay_out_flat_buffer(all, rules)),
              testing::ElementsAre(std::pair(384, 384), std::pair(96, 384)));
}

TEST(FlatBuckets, AreFilledAsTheyWereLaidOut) {
  std::vector<FlatParameter> all = parameters({96, 30, 7, 65, 300});
  all[0].is_shared_embedding = true;
  for (const int64_t size : {1, 64, 200, 1000}) {
    FlatBufferRules rules = aligned(128);
    rules.bucket_size = size;
    const FlatBuffer buffer = lay_out_flat_buffer(all, rules);
    std::vector<int64_t> known;
    for (const auto& bucket : buffer.buckets) known.push_back(bucket.elements);
    const auto places = fill_flat_buckets(all, known, 64, 64, 1);
    ASSERT_TRUE(places.has_value()) << size;
    EXPECT_EQ(*places, buffer.places) << size;
  }
}

TEST(FlatBuckets, RefuseLengthsThatDoNotAddUp) {
  const std::vector<FlatParameter> all = parameters({100, 30, 7});
  for (const std::vector<int64_t>& known : std::vector<std::vector<int64_t>>{
           {}, {227}, {229}, {94}, {94, 99}, {94, 101}, {94, 100, 1}, {0, 228}, {158, 100}}) {
    EXPECT_FALSE(fill_flat_buckets(all, known, 64, 64, 1).has_value()) << known.size();
  }
  EXPECT_TRUE(fill_flat_buckets(all, std::vector<int64_t>{94, 100}, 64, 64, 1).has_value());
}

TEST(FlatState, IsAVectorWithLessPaddingThanRanks) {
  FlatState state{
      .name = "", .form = FlatState::Form::kVector, .lengths = {140}, .unpadded = {}, .kinds = {}};
  const std::vector<FlatParameter> all = parameters({100, 30, 7});
  EXPECT_TRUE(possible_places(state, all, {.data_parallel_size = 3}).empty());
  EXPECT_EQ(possible_places(state, all, {.data_parallel_size = 4}).size(), 1U);
  state.lengths = {136};
  EXPECT_TRUE(possible_places(state, all, {.data_parallel_size = 4}).empty());
}

}  // namespace
}  // namespace meg::checkpoint
