#include "libmeg/samples/batches/micro_batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/samples/made_up_dataset.h"

namespace meg::samples {
namespace {

using test::MadeUpDataset;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(MicroBatch, ItsRowsAreTheSamplesInTheOrderAskedFor) {
  const MadeUpDataset dataset(10, 3);
  auto buffer = BatchBuffer::create({.samples = 3, .sequence_length = 2}, {});
  ASSERT_TRUE(buffer.has_value());
  buffer->sample_numbers() = {7, 1};
  std::vector<int64_t> text(3);
  ASSERT_TRUE(buffer->read(dataset, {.sequence_length = 2, .eod = 7001}, text).ok());
  const MicroBatch& batch = buffer->batch();
  EXPECT_EQ(batch.samples, 2);
  EXPECT_EQ(batch.sequence_length, 2);
  EXPECT_THAT(batch.sample_numbers, ElementsAre(7, 1));
  EXPECT_THAT(batch.tokens, ElementsAre(7000, 7001, 1000, 1001));
  EXPECT_THAT(batch.labels, ElementsAre(7001, 7002, 1001, 1002));
  EXPECT_THAT(batch.loss_mask, ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(batch.position_ids, ElementsAre(0, 1, 0, 1));
  EXPECT_TRUE(batch.counts_positions);
  EXPECT_THAT(batch.attention_mask, IsEmpty());
}

TEST(MicroBatch, ResetPositionsDoNotCount) {
  const MadeUpDataset dataset(10, 3);
  auto buffer = BatchBuffer::create({.samples = 1, .sequence_length = 2}, {});
  ASSERT_TRUE(buffer.has_value());
  buffer->sample_numbers() = {7};
  std::vector<int64_t> text(3);
  const GptSampleOptions options{.sequence_length = 2, .eod = 7000, .reset_position_ids = true};
  ASSERT_TRUE(buffer->read(dataset, options, text).ok());
  EXPECT_THAT(buffer->batch().position_ids, ElementsAre(0, 0));
  EXPECT_FALSE(buffer->batch().counts_positions);
}

TEST(MicroBatch, EachSampleHasItsAttentionMask) {
  const MadeUpDataset dataset(10, 2);
  auto buffer =
      BatchBuffer::create({.samples = 2, .sequence_length = 2, .attention_mask = true}, {});
  ASSERT_TRUE(buffer.has_value());
  buffer->sample_numbers() = {0, 1};
  std::vector<int64_t> text(2);
  const GptSampleOptions options{
      .sequence_length = 2, .extra_token = false, .eod = 1000, .reset_attention_mask = true};
  ASSERT_TRUE(buffer->read(dataset, options, text).ok());
  EXPECT_THAT(buffer->batch().attention_mask, ElementsAre(0, 1, 0, 0, 0, 1, 1, 0));
  EXPECT_THAT(buffer->batch().document_lengths, ElementsAre(2, 1, 1));
}

TEST(MicroBatch, RefusesMoreSamplesThanItHasRoomFor) {
  const MadeUpDataset dataset(10, 3);
  auto buffer = BatchBuffer::create({.samples = 1, .sequence_length = 2}, {});
  ASSERT_TRUE(buffer.has_value());
  buffer->sample_numbers() = {0, 1};
  std::vector<int64_t> text(3);
  EXPECT_THAT(buffer->read(dataset, {.sequence_length = 2}, text).message(),
              HasSubstr("expected at most 1 samples, found 2"));
}

TEST(MicroBatch, RefusesShapesThatFitIntoNoMemory) {
  constexpr int64_t kHuge = int64_t{1} << 40;
  for (const BatchBuffer::Shape shape : {BatchBuffer::Shape{0, 5, false},
                                         {5, 0, false},
                                         {-1, 5, false},
                                         {kHuge, kHuge, false},
                                         {1, int64_t{1} << 33, true},
                                         {kHuge, 1 << 20, false}}) {
    const auto buffer = BatchBuffer::create(shape, {});
    ASSERT_FALSE(buffer.has_value());
    EXPECT_EQ(buffer.error().code(), StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace meg::samples
