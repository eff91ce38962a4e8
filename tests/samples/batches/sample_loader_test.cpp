#include "libmeg/samples/batches/sample_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <set>

#include "tests/samples/made_up_dataset.h"

namespace meg::samples {
namespace {

using test::MadeUpDataset;
using ::testing::HasSubstr;

constexpr int64_t kLength = 4;

std::unique_ptr<BatchSampler> sampler(const BatchSampler::Options& options) {
  return *BatchSampler::create(options);
}

SampleLoader::Options options_for(int threads, int ahead) {
  return {.sample = {.sequence_length = kLength},
          .micro_batch_size = 2,
          .threads = threads,
          .ahead = ahead};
}

std::unique_ptr<SampleLoader> loader(const SampleDataset& dataset, int threads, int ahead,
                                     int64_t consumed = 0) {
  return *SampleLoader::create(
      dataset,
      sampler(
          {.total_samples = dataset.size(), .consumed_samples = consumed, .micro_batch_size = 2}),
      options_for(threads, ahead));
}

/// The sample numbers of all batches until the end, each checked against its tokens.
std::vector<int64_t> read_all(SampleLoader& loader) {
  std::vector<int64_t> numbers;
  while (true) {
    const auto batch = loader.next();
    if (!batch.has_value()) {
      numbers.push_back(-1);
      return numbers;
    }
    if (*batch == nullptr) return numbers;
    for (size_t row = 0; row < (*batch)->sample_numbers.size(); ++row) {
      numbers.push_back((*batch)->sample_numbers[row]);
      EXPECT_EQ((*batch)->tokens[row * kLength], 1000 * numbers.back());
      EXPECT_EQ((*batch)->labels[row * kLength + kLength - 1], 1000 * numbers.back() + kLength);
    }
  }
}

struct Ways {
  int threads;
  int ahead;
};

constexpr Ways kWays[] = {{0, 1}, {1, 1}, {1, 4}, {2, 1}, {2, 3}, {5, 4}, {8, 20}};

TEST(SampleLoader, GivesTheSamplersOrderWhateverTheThreads) {
  MadeUpDataset dataset(101, kLength + 1);
  dataset.be_slow();
  for (const Ways ways : kWays) {
    const auto numbers = read_all(*loader(dataset, ways.threads, ways.ahead));
    ASSERT_EQ(numbers.size(), 100U) << ways.threads << " threads, " << ways.ahead << " ahead";
    for (size_t i = 0; i < numbers.size(); ++i) EXPECT_EQ(numbers[i], static_cast<int64_t>(i));
  }
}

TEST(SampleLoader, ContinuesAfterTheConsumedSamples) {
  const MadeUpDataset dataset(20, kLength + 1);
  for (const Ways ways : kWays) {
    EXPECT_EQ(read_all(*loader(dataset, ways.threads, ways.ahead, 15)),
              (std::vector<int64_t>{15, 16, 17, 18}));
  }
}

TEST(SampleLoader, TheEndStaysTheEnd) {
  const MadeUpDataset dataset(4, kLength + 1);
  for (const Ways ways : kWays) {
    const auto made = loader(dataset, ways.threads, ways.ahead);
    EXPECT_EQ(read_all(*made).size(), 4U);
    for (int i = 0; i < 3; ++i) {
      const auto batch = made->next();
      ASSERT_TRUE(batch.has_value());
      EXPECT_EQ(*batch, nullptr);
    }
  }
}

TEST(SampleLoader, ABatchIsUntouchedUntilTheNextCall) {
  const MadeUpDataset dataset(100, kLength + 1);
  const auto made = loader(dataset, 3, 3);
  for (int64_t i = 0; i < 50; ++i) {
    const auto batch = made->next();
    ASSERT_TRUE(batch.has_value());
    std::this_thread::yield();
    EXPECT_EQ((*batch)->tokens[0], 2000 * i);
    EXPECT_EQ((*batch)->sample_numbers[1], 2 * i + 1);
  }
}

TEST(SampleLoader, AnErrorComesInItsPlaceAndAgainAtEveryLaterCall) {
  MadeUpDataset dataset(40, kLength + 1);
  dataset.be_slow();
  dataset.fail_at(13);
  for (const Ways ways : kWays) {
    const auto made = loader(dataset, ways.threads, ways.ahead);
    const auto numbers = read_all(*made);
    EXPECT_EQ(numbers.size(), 13U);  // 0 to 11, then the error
    EXPECT_EQ(numbers.back(), -1);
    for (int i = 0; i < 3; ++i) {
      const auto again = made->next();
      ASSERT_FALSE(again.has_value());
      EXPECT_EQ(again.error().code(), StatusCode::kCorruption);
      EXPECT_EQ(again.error().message(), "sample 13: data.bin: broken");
    }
  }
}

TEST(SampleLoader, CanBeLeftAtAnyMoment) {
  MadeUpDataset dataset(1000, kLength + 1);
  dataset.be_slow();
  for (const Ways ways : kWays) {
    for (int read = 0; read < 12; ++read) {
      const auto made = loader(dataset, ways.threads, ways.ahead);
      for (int i = 0; i < read; ++i) EXPECT_TRUE(made->next().has_value());
      if (read % 3 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }
}

TEST(SampleLoader, ShuffledEpochsNeverEnd) {
  const MadeUpDataset dataset(10, kLength + 1);
  const BatchSampler::Options cyclic{
      .type = DataloaderType::kCyclic, .total_samples = 10, .micro_batch_size = 2};
  const auto expected = sampler(cyclic);
  const auto made = *SampleLoader::create(dataset, sampler(cyclic), options_for(3, 4));
  std::vector<int64_t> numbers;
  for (int i = 0; i < 200; ++i) {
    const auto batch = made->next();
    ASSERT_TRUE(batch.has_value());
    expected->next(numbers);
    EXPECT_TRUE(std::ranges::equal((*batch)->sample_numbers, numbers));
  }
}

TEST(SampleLoader, FullValidationGivesBatchesOfOneSample) {
  const MadeUpDataset dataset(3, kLength + 1);
  const auto made = *SampleLoader::create(
      dataset, sampler({.type = DataloaderType::kFullValidation, .total_samples = 3}),
      options_for(1, 2));
  EXPECT_EQ((*made->next())->samples, 1);
  EXPECT_EQ((*made->next())->tokens.size(), static_cast<size_t>(kLength));
}

/// Memory that counts its blocks and has only so many.
struct CountedMemory {
  explicit CountedMemory(int most) : left(most) {}

  BatchMemory memory() {
    return {.allocate = [this](size_t bytes) -> void* {
              if (left == 0) return nullptr;
              --left;
              ++held;
              return ::operator new (bytes, std::align_val_t{64});
            },
            .release =
                [this](void* block, size_t) {
                  --held;
                  ::operator delete (block, std::align_val_t{64});
                }};
  }

  int left;
  int held = 0;
};

TEST(SampleLoader, UsesTheSameMemoryFromTheFirstBatchToTheLast) {
  const MadeUpDataset dataset(1000, kLength + 1);
  CountedMemory memory(4);
  auto options = options_for(2, 3);
  options.memory = memory.memory();
  {
    const auto made = *SampleLoader::create(
        dataset, sampler({.total_samples = 1000, .micro_batch_size = 2}), options);
    EXPECT_EQ(memory.held, 4);
    std::set<const int64_t*> places;
    for (int i = 0; i < 500; ++i) places.insert((*made->next())->tokens.data());
    EXPECT_EQ(places.size(), 4U);
  }
  EXPECT_EQ(memory.held, 0);
}

TEST(SampleLoader, LackOfMemoryIsAnErrorThatFreesTheBatches) {
  const MadeUpDataset dataset(10, kLength + 1);
  CountedMemory memory(2);
  auto options = options_for(2, 3);
  options.memory = memory.memory();
  const auto made =
      SampleLoader::create(dataset, sampler({.total_samples = 10, .micro_batch_size = 2}), options);
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(memory.held, 0);
}

TEST(SampleLoader, RefusesWhatDoesNotFitTogether) {
  const MadeUpDataset dataset(10, kLength + 1);
  const auto message = [&](const SampleLoader::Options& options) {
    const auto made = SampleLoader::create(dataset, sampler({.total_samples = 10}), options);
    return made.has_value() ? "none" : made.error().message();
  };
  SampleLoader::Options options = options_for(1, 1);
  options.sample.sequence_length = 5;
  EXPECT_THAT(message(options), HasSubstr("texts of the dataset: expected 6 tokens, found 5"));
  options = options_for(-1, 1);
  EXPECT_THAT(message(options), HasSubstr("threads: expected 0 or more, found -1"));
  options = options_for(1, 0);
  EXPECT_THAT(message(options), HasSubstr("micro-batches ahead: expected 1 or more, found 0"));
  options = options_for(1, 1);
  options.micro_batch_size = 0;
  EXPECT_THAT(message(options), HasSubstr("micro batch size: expected 1 or more, found 0"));
  options = options_for(1, 1);
  options.sample.sequence_length = 0;
  EXPECT_THAT(message(options), HasSubstr("sequence length: expected 1 or more, found 0"));
}

}  // namespace
}  // namespace meg::samples
