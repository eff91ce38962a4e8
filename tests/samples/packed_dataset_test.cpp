#include "libmeg/samples/internal/packed_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "libmeg/dataset/indexed_dataset_builder.h"
#include "libmeg/samples/batches/micro_batch.h"
#include "libmeg/samples/gpt_datasets.h"
#include "tests/temp_folder.h"

namespace meg::samples {
namespace {

using test::TempFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <class T>
using Documents = std::vector<std::vector<std::vector<T>>>;

template <class T>
void write(const std::string& prefix, const Documents<T>& documents) {
  auto builder = dataset::IndexedDatasetBuilder::create(prefix, {.dtype = dtype_of<T>()});
  ASSERT_TRUE(builder.has_value());
  for (const auto& document : documents) {
    for (const auto& sequence : document) {
      ASSERT_TRUE(builder->add_item(std::as_bytes(std::span(sequence))).ok());
    }
    ASSERT_TRUE(builder->end_document().ok());
  }
  ASSERT_TRUE(builder->finish().ok());
}

/// Two packed sequences: of two conversations, and of one.
std::string write_packed(const TempFolder& folder) {
  const std::string prefix = folder.path("packed");
  write<int32_t>(prefix, {{{10, 11, 12}, {20, 21, 22, 23}}, {{30, 31}}});
  write<uint8_t>(prefix + "_loss_mask", {{{0, 0, 1}, {1, 0, 1, 1}}, {{0, 1}}});
  return prefix;
}

GptDataConfig config_of(const std::string& prefix, int64_t sequence_length) {
  GptDataConfig config;
  config.blend = Blend{.prefixes = {prefix}, .weights = {}};
  config.split = "100,0,0";
  config.samples = {5, 0, 0};
  config.sequence_length = sequence_length;
  config.packed = true;
  return config;
}

// The arrays of Megatron-Bridge's GPTSFTPackedDataset.collate_fn.
TEST(PackedDataset, PositionsEndBeforeTheLastTokenOfAConversation) {
  const TempFolder folder;
  auto datasets = build_gpt_datasets(config_of(write_packed(folder), 7));
  ASSERT_TRUE(datasets.has_value()) << datasets.error().message();
  const SampleDataset& train = *datasets->splits[0];
  EXPECT_EQ(train.size(), 5);
  auto buffer = BatchBuffer::create({.samples = 2, .sequence_length = 7, .attention_mask = true},
                                    BatchMemory());
  ASSERT_TRUE(buffer.has_value());
  // Samples come round again after the last document.
  buffer->sample_numbers() = {2, 1};
  std::vector<int64_t> text(8);
  const GptSampleOptions options{
      .sequence_length = 7, .eod = 9, .reset_position_ids = true, .reset_attention_mask = true};
  ASSERT_TRUE(buffer->read(train, options, text).ok());
  const MicroBatch& batch = buffer->batch();
  EXPECT_THAT(batch.tokens, ElementsAre(10, 11, 20, 21, 22, 9, 9, 30, 9, 9, 9, 9, 9, 9));
  EXPECT_THAT(batch.labels, ElementsAre(11, 12, 21, 22, 23, 9, 9, 31, 9, 9, 9, 9, 9, 9));
  // The first token's mask of the second conversation counts for nothing: nothing predicts it.
  EXPECT_THAT(batch.loss_mask, ElementsAre(0, 1, 0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(batch.position_ids, ElementsAre(0, 1, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_FALSE(batch.counts_positions);
  EXPECT_THAT(batch.document_lengths, ElementsAre(2, 3, 2, 1, 6));
  EXPECT_THAT(batch.attention_mask.subspan(2 * 7, 7), ElementsAre(1, 1, 0, 1, 1, 1, 1));
  EXPECT_THAT(batch.attention_mask.subspan(4 * 7, 7), ElementsAre(1, 1, 0, 0, 0, 1, 1));
  const auto source = train.source(0);
  ASSERT_TRUE(source.has_value());
  EXPECT_EQ(source->parts.size(), 2U);
  EXPECT_EQ(source->parts[1].length, 4);
}

TEST(PackedDataset, SaysHowMuchOfItsSequencesIsFilled) {
  const TempFolder folder;
  const auto datasets = build_gpt_datasets(config_of(write_packed(folder), 5));
  ASSERT_TRUE(datasets.has_value()) << datasets.error().message();
  EXPECT_THAT(datasets->notes, testing::Contains(HasSubstr("2 packed sequences")));
  EXPECT_THAT(datasets->notes, testing::Contains(HasSubstr("packing efficiency 60.00%")));
}

TEST(PackedDataset, RefusesLongerSequencesThanTheRuns) {
  const TempFolder folder;
  const auto datasets = build_gpt_datasets(config_of(write_packed(folder), 4));
  ASSERT_FALSE(datasets.has_value());
  EXPECT_THAT(datasets.error().message(),
              HasSubstr("document 0: expected at most `seq_length` 4 positions, found 5"));
}

TEST(PackedDataset, RefusesDatasetsWithoutTheirMask) {
  const TempFolder folder;
  const std::string prefix = folder.path("plain");
  write<int32_t>(prefix, {{{1, 2}}});
  const auto missing = build_gpt_datasets(config_of(prefix, 4));
  ASSERT_FALSE(missing.has_value());
  EXPECT_THAT(missing.error().message(), HasSubstr("expected a dataset of pack_dataset"));
  write<uint8_t>(prefix + "_loss_mask", {{{1, 1, 1}}});
  const auto other = build_gpt_datasets(config_of(prefix, 4));
  ASSERT_FALSE(other.has_value());
  EXPECT_THAT(other.error().message(), HasSubstr("uint8 for each of its tokens"));
}

TEST(PackedDataset, IsBlended) {
  const TempFolder folder;
  GptDataConfig config = config_of(write_packed(folder), 5);
  config.blend = Blend{.prefixes = {folder.path("packed"), folder.path("packed")},
                       .weights = std::vector<double>{1, 1}};
  const auto datasets = build_gpt_datasets(config);
  ASSERT_TRUE(datasets.has_value()) << datasets.error().message();
  EXPECT_GE(datasets->splits[0]->size(), 5);
  std::vector<int64_t> tokens(5), labels(5), positions(5), lengths, text(6);
  std::vector<float> mask(5);
  const GptSampleFields fields{.tokens = tokens,
                               .labels = labels,
                               .loss_mask = mask,
                               .position_ids = positions,
                               .attention_mask = {}};
  ASSERT_TRUE(datasets->splits[0]->fill(0, {.sequence_length = 5}, text, fields, lengths).ok());
  EXPECT_THAT(tokens, ElementsAre(10, 11, 20, 21, 22));
}

}  // namespace
}  // namespace meg::samples
