// Plans and the three indices against plain loops and by hand.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "libmeg/samples/gpt_index_plan.h"
#include "libmeg/samples/internal/gpt_index_builder.h"

namespace meg::samples {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();

megatron::MegatronVersion version(std::string_view name) {
  return *megatron::parse_megatron_version(name);
}

GptIndexPlan plan_of(const GptIndexRequest& request, std::string_view name = "core_v0.16.1") {
  const auto plan = plan_gpt_index(request, version(name));
  EXPECT_TRUE(plan.has_value()) << plan.status().message();
  return plan.has_value() ? *plan : GptIndexPlan();
}

std::string error_of(const GptIndexRequest& request, std::string_view name = "core_v0.16.1") {
  const auto plan = plan_gpt_index(request, version(name));
  EXPECT_EQ(plan.status().code(), StatusCode::kInvalidArgument);
  return plan.status().message();
}

GptIndexRequest request_of(int64_t sequences, int64_t tokens, std::optional<int64_t> samples,
                           int64_t sequence_length) {
  GptIndexRequest request;
  request.sequences = sequences;
  request.tokens = tokens;
  request.longest_sequence = tokens;
  request.samples = samples;
  request.sequence_length = sequence_length;
  return request;
}

int64_t counted_epochs(const GptIndexRequest& request) {
  int64_t epochs = 1;
  const int64_t needed = *request.samples * request.sequence_length + (request.extra_token ? 1 : 0);
  while (epochs * request.tokens < needed) ++epochs;
  return epochs;
}

TEST(GptIndexPlanTest, EpochsAreTheFewestThatHoldTheSamples) {
  std::mt19937 random(1);
  for (int round = 0; round < 5000; ++round) {
    auto request = request_of(3, 1 + random() % 200, random() % 100, 1 + random() % 50);
    request.extra_token = random() % 2 == 0;
    const GptIndexPlan plan = plan_of(request);
    ASSERT_EQ(plan.epochs, counted_epochs(request));
    ASSERT_GE(plan.samples, *request.samples);
  }
}

TEST(GptIndexPlanTest, OpenSampleCountsAreOneEpoch) {
  const GptIndexPlan plan = plan_of(request_of(10, 1025, std::nullopt, 128));
  EXPECT_EQ(plan.epochs, 1);
  EXPECT_EQ(plan.samples, 8);
  EXPECT_EQ(plan.samples_before_last_epoch, std::nullopt);
}

TEST(GptIndexPlanTest, TooFewTokensForASampleGiveNone) {
  EXPECT_EQ(plan_of(request_of(1, 128, std::nullopt, 128)).samples, 0);
  EXPECT_EQ(plan_of(request_of(1, 129, std::nullopt, 128)).samples, 1);
  auto request = request_of(1, 128, std::nullopt, 128);
  request.extra_token = false;
  EXPECT_EQ(plan_of(request).samples, 1);
}

// 100 samples an epoch; int(0.80 * 100) = 80.
TEST(GptIndexPlanTest, TheLastEpochIsShuffledApartBelowFourFifths) {
  EXPECT_EQ(plan_of(request_of(7, 1001, 100, 10)).samples_before_last_epoch, std::nullopt);
  EXPECT_EQ(plan_of(request_of(7, 1001, 100 + 79, 10)).samples_before_last_epoch, 100);
  EXPECT_EQ(plan_of(request_of(7, 1001, 100 + 80, 10)).samples_before_last_epoch, std::nullopt);
  EXPECT_EQ(plan_of(request_of(7, 1001, 200 + 5, 10)).samples_before_last_epoch, 200);
}

TEST(GptIndexPlanTest, TinyEpochsAreNeverApart) {
  const GptIndexPlan plan = plan_of(request_of(2, 5, 100, 10));
  EXPECT_EQ(plan.epochs, 201);
  EXPECT_EQ(plan.samples_before_last_epoch, std::nullopt);
}

TEST(GptIndexPlanTest, APartialSampleIsCountedInFloat32) {
  auto request = request_of(1, 33554434, std::nullopt, 4194304);
  request.drop_last_partial = false;
  EXPECT_EQ(plan_of(request).samples, 8);  // 33554433 is 33554432 as float32
  request.tokens = 101;
  request.sequence_length = 10;
  EXPECT_EQ(plan_of(request).samples, 10);
  request.tokens = 102;
  EXPECT_EQ(plan_of(request).samples, 11);
}

TEST(GptIndexPlanTest, TypesFollowTheRevision) {
  const auto request = request_of(10, 1000, 5, 16);
  EXPECT_EQ(plan_of(request, "core_v0.7.0").sample_type, DType::kInt32);
  EXPECT_EQ(plan_of(request, "core_v0.8.0").sample_type, DType::kInt64);
  EXPECT_EQ(plan_of(request, "core_v0.9.0").sample_type, DType::kInt64);
  EXPECT_EQ(plan_of(request, "core_v0.10.0").sample_type, DType::kInt32);
  const auto many = request_of(kMaxInt32, kMaxInt32, 3'000'000'000, 1);
  EXPECT_EQ(plan_of(many, "core_v0.10.0").sample_type, DType::kInt64);
  EXPECT_THAT(error_of(many, "core_v0.7.0"), HasSubstr("document index: expected at most"));
}

TEST(GptIndexPlanTest, ShuffleIndicesTurnInt64WhereNumpysUint32Ends) {
  auto request = request_of(10, 0xfffffffe, std::nullopt, 1);
  EXPECT_EQ(plan_of(request).samples, 0xfffffffd);
  EXPECT_EQ(plan_of(request).shuffle_type, DType::kUint32);
  request.tokens += 1;
  EXPECT_EQ(plan_of(request).shuffle_type, DType::kInt64);
}

TEST(GptIndexPlanTest, RefusesNumbersOutOfRange) {
  EXPECT_EQ(error_of(request_of(1, 10, 1, 0)),
            "sequence length: expected 1 to 2147483646, found 0");
  EXPECT_THAT(error_of(request_of(1, 10, 1, kMaxInt32)), HasSubstr("sequence length"));
  EXPECT_EQ(error_of(request_of(1, 10, -1, 8)), "samples: expected 0 or more, found -1");
  EXPECT_THAT(error_of(request_of(kMaxInt32 + 1, kMaxInt32 + 1, 1, 8)), HasSubstr("sequences"));
  EXPECT_EQ(error_of(request_of(1, 10, 10'000'000'000, 8)),
            "samples: expected what 2147483647 epochs of 10 tokens hold, found 10000000000 of 8 "
            "tokens");
  EXPECT_THAT(error_of(request_of(1, 10, std::numeric_limits<int64_t>::max(), 2)),
              HasSubstr("samples: expected what"));
  EXPECT_THAT(error_of(request_of(1, std::numeric_limits<int64_t>::max() - 8,
                                  std::numeric_limits<int64_t>::max() - 1, 1)),
              HasSubstr("samples: expected what"));
}

/// Where each sample begins, counted token by token.
template <class T>
std::vector<T> plain_rows(const GptIndexPlan& plan, const std::vector<int32_t>& lengths,
                          const std::vector<int32_t>& documents) {
  std::vector<std::pair<int64_t, int64_t>> tokens;  // entry and offset of every token
  for (size_t entry = 0; entry < documents.size(); ++entry) {
    const int32_t length = lengths[static_cast<size_t>(documents[entry])];
    for (int32_t offset = 0; offset < length; ++offset) tokens.emplace_back(entry, offset);
  }
  std::vector<T> rows = {0, 0};
  for (int64_t row = 1; row <= plan.samples; ++row) {
    const auto last = static_cast<size_t>(row * plan.sequence_length + plan.extra_token - 1);
    const auto end =
        std::pair<int64_t, int64_t>(static_cast<int64_t>(documents.size()) - 1,
                                    int64_t{lengths[static_cast<size_t>(documents.back())]} - 1);
    const auto [entry, offset] = last < tokens.size() ? tokens[last] : end;
    rows.push_back(static_cast<T>(entry));
    rows.push_back(static_cast<T>(offset + 1 - plan.extra_token));
  }
  return rows;
}

template <class T>
std::vector<T> built_rows(const GptIndexPlan& plan, const std::vector<int32_t>& lengths,
                          const std::vector<int32_t>& documents) {
  std::vector<T> all;
  const SampleRowSink<T> sink = [&](std::span<const T> rows) {
    EXPECT_LE(rows.size_bytes(), size_t{1} << 20);
    all.insert(all.end(), rows.begin(), rows.end());
    return Status();
  };
  const dataset::LittleEndianArray<int32_t> array(std::as_bytes(std::span(lengths)));
  EXPECT_TRUE(build_sample_index<T>(plan, array, documents, sink).ok());
  return all;
}

/// Lengths of one kind: mostly none, short, or longer than many samples.
std::vector<int32_t> random_lengths(std::mt19937& random) {
  std::vector<int32_t> lengths(1 + random() % 60);
  const uint32_t most = uint32_t{1} << random() % 12;
  for (int32_t& length : lengths) {
    length = random() % 3 == 0 ? 0 : static_cast<int32_t>(random() % (most + 1));
  }
  lengths.front() += 1;
  return lengths;
}

TEST(GptIndexBuilderTest, SampleRowsAreThoseOfThePlainLoop) {
  std::mt19937 random(2);
  for (int round = 0; round < 3000; ++round) {
    const auto lengths = random_lengths(random);
    auto request = request_of(static_cast<int64_t>(lengths.size()),
                              std::accumulate(lengths.begin(), lengths.end(), int64_t{0}),
                              std::nullopt, 1 + random() % 70);
    const int64_t per_epoch = request.tokens / request.sequence_length;
    if (random() % 2 == 0) request.samples = random() % (4 * per_epoch + 4);
    request.extra_token = random() % 2 == 0;
    request.drop_last_partial = random() % 2 == 0;
    const GptIndexPlan plan = plan_of(request);
    std::vector<int32_t> documents(static_cast<size_t>(plan.documents()));
    numpy::RandomState state(static_cast<uint32_t>(round));
    ASSERT_TRUE(build_document_index(plan, {0, request.sequences}, state, documents).ok());
    ASSERT_EQ(built_rows<int32_t>(plan, lengths, documents),
              plain_rows<int32_t>(plan, lengths, documents));
    ASSERT_EQ(built_rows<int64_t>(plan, lengths, documents),
              plain_rows<int64_t>(plan, lengths, documents));
  }
}

TEST(GptIndexBuilderTest, OneSequenceMayHoldMoreRowsThanAPiece) {
  const std::vector<int32_t> lengths = {400'000, 3, 300'001};
  const std::vector<int32_t> documents = {0, 1, 2};
  const GptIndexPlan plan = plan_of(request_of(3, 700'004, std::nullopt, 3));
  EXPECT_EQ(built_rows<int32_t>(plan, lengths, documents),
            plain_rows<int32_t>(plan, lengths, documents));
}

TEST(GptIndexBuilderTest, ManySequencesMayHoldNoRow) {
  std::vector<int32_t> lengths(200'000, 0);
  lengths[150'000] = 10;
  std::vector<int32_t> documents(lengths.size());
  std::iota(documents.begin(), documents.end(), 0);
  const GptIndexPlan plan = plan_of(request_of(200'000, 10, std::nullopt, 4));
  EXPECT_THAT(built_rows<int32_t>(plan, lengths, documents),
              ElementsAre(0, 0, 150'000, 4, 150'000, 8));
}

// Where float32 counts more samples than there are tokens for.
TEST(GptIndexBuilderTest, RowsBeyondTheTokensStandAtTheEnd) {
  GptIndexPlan plan = plan_of(request_of(2, 10, std::nullopt, 4));
  plan.samples = 5;
  EXPECT_THAT(built_rows<int32_t>(plan, {6, 4}, {1, 0}),
              ElementsAre(0, 0, 1, 0, 1, 4, 1, 5, 1, 5, 1, 5));
}

TEST(GptIndexBuilderTest, AnErrorOfTheSinkEndsTheWork) {
  const std::vector<int32_t> lengths = {1'000'000};
  const GptIndexPlan plan = plan_of(request_of(1, 1'000'000, std::nullopt, 2));
  int calls = 0;
  const SampleRowSink<int32_t> sink = [&](std::span<const int32_t>) {
    ++calls;
    return make_error(StatusCode::kResourceExhausted, "full");
  };
  const dataset::LittleEndianArray<int32_t> array(std::as_bytes(std::span(lengths)));
  const std::vector<int32_t> documents = {0};
  EXPECT_EQ(build_sample_index<int32_t>(plan, array, documents, sink).message(), "full");
  EXPECT_EQ(calls, 1);
}

/// The sequences 100 to 149 of three epochs, those of the first two and of the last sorted.
std::vector<int32_t> sorted_epochs(const GptIndexPlan& plan) {
  std::vector<int32_t> documents(150);
  numpy::RandomState random(4);
  EXPECT_TRUE(build_document_index(plan, {100, 150}, random, documents).ok());
  numpy::RandomState skipping(4);
  EXPECT_TRUE(skip_document_index(plan, skipping).ok());
  EXPECT_EQ(random.next(), skipping.next());
  EXPECT_FALSE(std::is_sorted(documents.begin() + 100, documents.end()));
  std::sort(documents.begin(), documents.begin() + 100);
  std::sort(documents.begin() + 100, documents.end());
  return documents;
}

TEST(GptIndexBuilderTest, EpochsAreShuffledTogetherOrTheLastApart) {
  std::vector<int32_t> each_apart;
  for (int32_t i = 0; i < 100; ++i) each_apart.push_back(100 + i / 2);
  for (int32_t i = 0; i < 50; ++i) each_apart.push_back(100 + i);
  GptIndexPlan plan;
  plan.sequences = 50;
  plan.epochs = 3;
  plan.samples = 90;
  EXPECT_NE(sorted_epochs(plan), each_apart);
  plan.samples_before_last_epoch = 60;
  EXPECT_EQ(sorted_epochs(plan), each_apart);
}

TEST(GptIndexBuilderTest, SamplesOfTheLastEpochAreShuffledSeparately) {
  GptIndexPlan plan;
  plan.samples = 100;
  plan.samples_before_last_epoch = 70;
  std::vector<int64_t> shuffle(100);
  numpy::RandomState random(8);
  EXPECT_TRUE(build_shuffle_index<int64_t>(plan, random, shuffle).ok());
  EXPECT_FALSE(std::is_sorted(shuffle.begin(), shuffle.begin() + 70));
  EXPECT_FALSE(std::is_sorted(shuffle.begin() + 70, shuffle.end()));
  std::sort(shuffle.begin(), shuffle.begin() + 70);
  std::sort(shuffle.begin() + 70, shuffle.end());
  for (size_t i = 0; i < 100; ++i) EXPECT_EQ(shuffle[i], static_cast<int64_t>(i));
}

}  // namespace
}  // namespace meg::samples
