// One text to tokens, labels, loss mask, positions and attention mask.

#include "libmeg/samples/gpt_sample.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string_view>
#include <vector>

#include "tests/samples/filled_sample.h"

namespace meg::samples {
namespace {

using test::fill;
using test::Filled;
using ::testing::Each;
using ::testing::ElementsAre;

TEST(GptSample, TokensAreTheTextLessItsLastLabelsLessItsFirst) {
  const Filled sample = fill({5, 6, 7, 8}, {});
  EXPECT_THAT(sample.tokens, ElementsAre(5, 6, 7));
  EXPECT_THAT(sample.labels, ElementsAre(6, 7, 8));
  EXPECT_THAT(sample.loss_mask, Each(1.0F));
  EXPECT_THAT(sample.position_ids, ElementsAre(0, 1, 2));
  EXPECT_THAT(sample.attention_mask, ElementsAre(0, 1, 1, 0, 0, 1, 0, 0, 0));
}

TEST(GptSample, WithoutTheExtraTokenTheLastLabelIsPadding) {
  const Filled sample = fill({5, 6, 7}, {.extra_token = false});
  EXPECT_THAT(sample.tokens, ElementsAre(5, 6, 7));
  EXPECT_THAT(sample.labels, ElementsAre(6, 7, 0));
  EXPECT_THAT(sample.loss_mask, ElementsAre(1, 1, 0));
}

TEST(GptSample, PaddingIsMaskedAndBecomesZero) {
  const Filled sample = fill({5, 6, 9, 9}, {.pad = 9});
  EXPECT_THAT(sample.tokens, ElementsAre(5, 6, 0));
  EXPECT_THAT(sample.labels, ElementsAre(6, 0, 0));
  EXPECT_THAT(sample.loss_mask, ElementsAre(1, 0, 0));
}

TEST(GptSample, TheLossIsMaskedWhereTheTokenEndsADocument) {
  const Filled sample = fill({5, 0, 7, 0}, {.eod_mask_loss = true});
  EXPECT_THAT(sample.loss_mask, ElementsAre(1, 0, 1));
}

TEST(GptSample, ThePadIsAlsoTheEndOfDocument) {
  const Filled sample =
      fill({5, 3, 7, 3}, {.eod = 3, .pad = 3, .reset_position_ids = true, .eod_mask_loss = true});
  EXPECT_THAT(sample.tokens, ElementsAre(5, 0, 7));
  EXPECT_THAT(sample.loss_mask, ElementsAre(0, 0, 0));
  EXPECT_THAT(sample.position_ids, ElementsAre(0, 1, 0));
}

TEST(GptSample, PositionsRestartAfterEachEndOfDocument) {
  const Filled sample = fill({0, 0, 5, 6, 0, 7, 8}, {.reset_position_ids = true});
  EXPECT_THAT(sample.position_ids, ElementsAre(0, 0, 0, 1, 2, 0));
}

TEST(GptSample, TheAttentionMaskEndsAtTheDocument) {
  const Filled sample = fill({5, 0, 6, 7}, {.reset_attention_mask = true});
  EXPECT_THAT(sample.attention_mask, ElementsAre(0, 1, 1, 0, 0, 1, 1, 1, 0));
}

TEST(GptSample, DocumentsEndAfterTheirLastToken) {
  std::vector<int64_t> lengths = {9};
  append_document_lengths(std::vector<int64_t>{5, 0, 0, 6, 7}, /*eod=*/0, lengths);
  EXPECT_THAT(lengths, ElementsAre(9, 2, 1, 2));
  append_document_lengths(std::vector<int64_t>{5, 0}, /*eod=*/0, lengths);
  EXPECT_THAT(lengths, ElementsAre(9, 2, 1, 2, 2));
}

TEST(GptSample, WithoutAMaskNoneIsWritten) {
  const std::vector<int64_t> text = {5, 6, 7};
  Filled sample(2, false);
  fill_gpt_sample(text, {.sequence_length = 2, .reset_attention_mask = true}, sample.fields());
  EXPECT_THAT(sample.tokens, ElementsAre(5, 6));
}

int64_t pad_at(std::string_view revision, std::optional<int64_t> pad,
               bool allow_ambiguous = false) {
  constexpr int64_t kEod = 3;
  return pad_of_samples(pad, kEod, allow_ambiguous, *megatron::parse_megatron_version(revision));
}

TEST(PadOfSamples, IsTheTokenizersSinceCore07) {
  EXPECT_EQ(pad_at("core_v0.6.0", 9), -1);
  for (const char* revision : {"core_v0.7.0", "core_v0.15.0", "core_v0.16.0", "core_v0.19.0"}) {
    EXPECT_EQ(pad_at(revision, 9), 9) << revision;
    EXPECT_EQ(pad_at(revision, std::nullopt), -1) << revision;
  }
}

TEST(PadOfSamples, IsNoEndOfDocumentSinceCore016UnlessAllowed) {
  EXPECT_EQ(pad_at("core_v0.7.0", 3), 3);
  EXPECT_EQ(pad_at("core_v0.15.0", 3), 3);
  EXPECT_EQ(pad_at("core_v0.16.0", 3), -1);
  EXPECT_EQ(pad_at("core_v0.16.0", 3, true), 3);
  EXPECT_EQ(pad_at("core_v0.19.0", 3), -1);
}

TEST(GptSample, OneTokenIsASample) {
  const Filled sample = fill({5}, {.extra_token = false});
  EXPECT_THAT(sample.labels, ElementsAre(0));
  EXPECT_THAT(sample.loss_mask, ElementsAre(0));
  EXPECT_THAT(sample.attention_mask, ElementsAre(0));
}

}  // namespace
}  // namespace meg::samples
