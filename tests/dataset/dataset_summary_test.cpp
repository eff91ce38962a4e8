#include "libmeg/dataset/dataset_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "tests/dataset/dataset_bytes.h"
#include "tests/temp_folder.h"

namespace meg::dataset {
namespace {

using test::TempFolder;

constexpr uint8_t kUint8Code = 1;

/// A dataset of these lengths whose .bin is a hole.
Result<LengthSummary> summarize(const std::vector<int32_t>& lengths) {
  const TempFolder folder;
  const auto sequences = static_cast<int64_t>(lengths.size());
  int64_t total = 0;
  for (const int32_t length : lengths) total += length;
  test::write_dataset(folder.path("set"),
                      test::index_fields(kUint8Code, lengths, {0, sequences}).bytes(), "");
  std::filesystem::resize_file(folder.path("set.bin"), static_cast<uintmax_t>(total));
  MEG_ASSIGN_OR_RETURN(const IndexedDataset dataset, IndexedDataset::open(folder.path("set")));
  return summarize_lengths(dataset);
}

int32_t at_percent(const std::vector<int32_t>& sorted, size_t percent) {
  return sorted[(sorted.size() * percent + 99) / 100 - 1];
}

TEST(DatasetSummary, IsZeroWithoutSequences) {
  const auto summary = summarize({});
  ASSERT_TRUE(summary.has_value());
  EXPECT_EQ(summary->total, 0);
  EXPECT_TRUE(summary->histogram.empty());
}

TEST(DatasetSummary, CountsBucketsOfPowersOfTwo) {
  const auto summary = summarize({0, 1, 2, 3, 4, 7, 8});
  ASSERT_TRUE(summary.has_value()) << summary.error().message();
  EXPECT_EQ(summary->median, 3);
  EXPECT_EQ(summary->p99, 8);
  EXPECT_DOUBLE_EQ(summary->mean, 25.0 / 7);
  std::vector<int64_t> counts;
  for (const LengthBucket& bucket : summary->histogram) counts.push_back(bucket.sequences);
  EXPECT_THAT(counts, ::testing::ElementsAre(1, 1, 2, 2, 1));
  EXPECT_EQ(summary->histogram.back().from, 8);
  EXPECT_EQ(summary->histogram.back().to, 15);
}

TEST(DatasetSummary, IsThatOfTheSortedLengths) {
  std::mt19937 random(7);
  for (const int32_t largest : {1, 300, 65535, 65536, 70000, 5'000'000}) {
    std::uniform_int_distribution<int32_t> length(0, largest);
    std::vector<int32_t> lengths(1 + random() % 2000);
    for (int32_t& one : lengths) one = length(random);
    const auto summary = summarize(lengths);
    ASSERT_TRUE(summary.has_value()) << summary.error().message();
    std::sort(lengths.begin(), lengths.end());
    EXPECT_EQ(summary->min, lengths.front());
    EXPECT_EQ(summary->max, lengths.back());
    EXPECT_EQ(summary->median, at_percent(lengths, 50));
    EXPECT_EQ(summary->p90, at_percent(lengths, 90));
    EXPECT_EQ(summary->p99, at_percent(lengths, 99));
    for (const LengthBucket& bucket : summary->histogram) {
      EXPECT_EQ(bucket.sequences, std::count_if(lengths.begin(), lengths.end(), [&](int32_t one) {
                  return one >= bucket.from && one <= bucket.to;
                }));
    }
  }
}

TEST(DatasetSummary, RefusesNegativeLengths) {
  const TempFolder folder;
  test::IndexFields fields = test::index_fields(kUint8Code, {2, 3}, {0, 2});
  fields.lengths[0] = -2;
  test::write_dataset(folder.path("set"), fields.bytes(), "abcde");
  const auto dataset = IndexedDataset::open(folder.path("set"));
  EXPECT_EQ(summarize_lengths(*dataset).error().code(), StatusCode::kCorruption);
}

}  // namespace
}  // namespace meg::dataset
