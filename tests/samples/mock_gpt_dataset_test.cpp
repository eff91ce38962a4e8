#include "libmeg/samples/internal/mock_gpt_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace meg::samples {
namespace {

using ::testing::HasSubstr;

megatron::MegatronVersion version(const char* name) {
  return *megatron::parse_megatron_version(name);
}

Result<std::unique_ptr<SampleDataset>> make(const MockGptOptions& options, const char* name) {
  return make_mock_gpt_dataset(options, version(name));
}

std::vector<int64_t> text_of(const SampleDataset& dataset, int64_t sample) {
  std::vector<int64_t> text(static_cast<size_t>(dataset.text_length()), -7);
  const Status status = dataset.text(sample, -1, text);
  EXPECT_TRUE(status.ok()) << status.message();
  return text;
}

TEST(MockGptDataset, ASamplesPartsAreItsText) {
  const auto mock = make({.sequence_length = 512, .vocab_size = 50257, .eod = 50256}, "0.19.0");
  ASSERT_TRUE(mock.has_value()) << mock.error().message();
  for (int64_t sample = 0; sample < 50; ++sample) {
    const auto source = (*mock)->source(sample);
    ASSERT_TRUE(source.has_value());
    std::vector<int64_t> expected;
    for (const SamplePart& part : source->parts) {
      for (int64_t i = 0; i < part.length; ++i) expected.push_back(part.offset + i + 1);
    }
    std::vector<int64_t> text = text_of(**mock, sample);
    ASSERT_EQ(text.size(), expected.size());
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] == 50256) text[i] = expected[i];
    }
    EXPECT_EQ(text, expected);
  }
}

TEST(MockGptDataset, TokensWrapAtTheVocabularySizeFromCore016On) {
  MockGptOptions options{.samples = 10, .sequence_length = 4000, .vocab_size = 100, .eod = 99};
  const auto plain = make(options, "0.15.3");
  const auto wrapped = make(options, "0.16.0");
  ASSERT_TRUE(plain.has_value() && wrapped.has_value());
  std::vector<int64_t> expected = text_of(**plain, 3);
  const std::vector<int64_t> found = text_of(**wrapped, 3);
  EXPECT_GT(*std::max_element(expected.begin(), expected.end()), 100);
  for (int64_t& token : expected) token %= 100;
  EXPECT_EQ(found, expected);
}

TEST(MockGptDataset, TheShortLastValidationSampleIsPadded) {
  MockGptOptions options{.split = Split::kValid,
                         .sequence_length = 1000,
                         .vocab_size = 50257,
                         .eod = 50256,
                         .drop_last_partial = false};
  const auto kept = make(options, "0.19.0");
  options.drop_last_partial = true;
  const auto dropped = make(options, "0.19.0");
  ASSERT_TRUE(kept.has_value() && dropped.has_value());
  ASSERT_EQ((*kept)->size(), (*dropped)->size() + 1);
  int padded = 0;
  for (int64_t sample = 0; sample < (*kept)->size(); ++sample) {
    padded += static_cast<int>(text_of(**kept, sample).back() == -1);
  }
  EXPECT_EQ(padded, 1);
}

TEST(MockGptDataset, EarlyRevisionsGiveOnesAnEndAndPadding) {
  const auto mock = make({.split = Split::kValid, .sequence_length = 64}, "0.5.0");
  ASSERT_TRUE(mock.has_value());
  EXPECT_EQ((*mock)->size(), 32767);
  const std::vector<int64_t> text = text_of(**mock, 32766);
  const auto ones = static_cast<size_t>(text[0]);
  ASSERT_LT(ones, 64U);
  for (size_t i = 1; i < text.size(); ++i) {
    EXPECT_EQ(text[i], i <= ones ? 1 : i == ones + 1 ? 0 : 2);
  }
}

TEST(MockGptDataset, OneTokenIsTheShortestSample) {
  const auto early = make({.sequence_length = 1}, "0.5.0");
  ASSERT_TRUE(early.has_value());
  EXPECT_EQ(text_of(**early, 0), (std::vector<int64_t>{0, 0}));
}

TEST(MockGptDataset, SamplesOutsideAreRefused) {
  for (const char* name : {"0.5.0", "0.9.0"}) {
    const auto mock = make({.samples = 5, .sequence_length = 64}, name);
    ASSERT_TRUE(mock.has_value());
    std::vector<int64_t> text(65);
    for (const int64_t sample : {int64_t{-1}, (*mock)->size()}) {
      EXPECT_EQ((*mock)->text(sample, -1, text).code(), StatusCode::kOutOfRange);
      EXPECT_EQ((*mock)->source(sample).error().code(), StatusCode::kOutOfRange);
    }
  }
}

TEST(MockGptDataset, RefusesWhatCannotBeMadeUp) {
  const auto none = make({.sequence_length = 64}, "core_v0.4.0");
  EXPECT_EQ(none.error().code(), StatusCode::kUnsupported);
  EXPECT_THAT(none.error().message(), HasSubstr("mock data: core_v0.4.0 has none"));
  const auto short_sequence = make({.sequence_length = 0}, "0.5.0");
  EXPECT_THAT(short_sequence.error().message(), HasSubstr("sequence length: expected 1 to"));
  const auto no_vocabulary = make({.sequence_length = 64}, "0.19.0");
  EXPECT_THAT(no_vocabulary.error().message(), HasSubstr("vocabulary size: expected 1 or more"));
}

}  // namespace
}  // namespace meg::samples
