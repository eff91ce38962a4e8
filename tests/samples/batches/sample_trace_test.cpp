#include "libmeg/samples/batches/sample_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <set>

#include "libmeg/samples/blended_dataset.h"
#include "libmeg/samples/gpt_index_plan.h"
#include "libmeg/samples/internal/gpt_index_builder.h"
#include "libmeg/samples/internal/sample_walk.h"
#include "libmeg/samples/internal/sequence_samples.h"

namespace meg::samples {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Sample n is sequence n, of 4 tokens.
class OneSequenceASample : public SampleDataset {
 public:
  explicit OneSequenceASample(int64_t size) : size_(size) {}

  int64_t size() const override { return size_; }

  int64_t text_length() const override { return 4; }

  Status text(int64_t, int64_t, std::span<int64_t>) const override { return {}; }

  Result<SampleSource> source(int64_t sample) const override {
    return SampleSource{.dataset = 0,
                        .parts = {{.sequence = sample, .offset = 0, .length = 4},
                                  {.sequence = sample + 1, .offset = 0, .length = 0}}};
  }

  std::vector<std::string> prefixes() const override { return {"p"}; }

 private:
  int64_t size_;
};

TraceSchedule schedule(int64_t global_batch_size, int64_t micro_batch_size, int64_t ranks,
                       int64_t steps, std::optional<BatchRampup> rampup = {}) {
  return {.batches = *BatchSchedule::create({.global_batch_size = global_batch_size,
                                             .micro_batch_size = micro_batch_size,
                                             .data_parallel_size = ranks,
                                             .rampup = rampup}),
          .type = DataloaderType::kSingle,
          .micro_batch_size = micro_batch_size,
          .data_parallel_size = ranks,
          .steps = steps};
}

std::vector<int64_t> numbers(const std::vector<TracedSample>& samples) {
  std::vector<int64_t> found;
  for (const TracedSample& sample : samples) found.push_back(sample.sample);
  return found;
}

TEST(SampleTrace, AStepIsItsMicroBatchesRankByRank) {
  const OneSequenceASample dataset(100);
  const auto all = trace_step(dataset, schedule(8, 2, 2, 10), 2, -1);
  ASSERT_TRUE(all.has_value()) << all.status().message();
  EXPECT_THAT(numbers(*all), ElementsAre(8, 9, 10, 11, 12, 13, 14, 15));
  EXPECT_EQ((*all)[3].rank, 1);
  EXPECT_EQ((*all)[3].micro_batch, 0);
  EXPECT_EQ((*all)[4].rank, 0);
  EXPECT_EQ((*all)[4].micro_batch, 1);
  EXPECT_EQ((*all)[4].source.parts[0].sequence, 12);
}

TEST(SampleTrace, OneRankOfAStepIsWhatItsSamplerGives) {
  const OneSequenceASample dataset(100);
  const TraceSchedule run = schedule(12, 2, 3, 8);
  for (int64_t rank = 0; rank < 3; ++rank) {
    auto sampler = BatchSampler::create({.type = DataloaderType::kSingle,
                                         .total_samples = 100,
                                         .micro_batch_size = 2,
                                         .data_parallel_rank = rank,
                                         .data_parallel_size = 3});
    ASSERT_TRUE(sampler.has_value());
    for (int64_t step = 1; step <= 8; ++step) {
      std::vector<int64_t> wanted;
      for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
        std::vector<int64_t> batch;
        ASSERT_TRUE((*sampler)->next(batch));
        wanted.insert(wanted.end(), batch.begin(), batch.end());
      }
      EXPECT_EQ(numbers(*trace_step(dataset, run, step, rank)), wanted);
    }
  }
}

TEST(SampleTrace, StepsOfARampUpAreShort) {
  const OneSequenceASample dataset(100);
  const TraceSchedule run =
      schedule(4, 1, 1, 20, BatchRampup{.start = 2, .increment = 2, .samples = 6});
  EXPECT_THAT(numbers(*trace_step(dataset, run, 1, -1)), ElementsAre(0, 1));
  const int64_t last = run.batches.step_of(50);
  EXPECT_EQ(trace_step(dataset, run, last, -1)->size(), 4U);
}

TEST(SampleTrace, ASequenceIsFoundInTheStepsThatSawIt) {
  const OneSequenceASample dataset(100);
  const auto seen = trace_sequences(dataset, schedule(8, 2, 2, 10), 0, {.begin = 13, .end = 15});
  ASSERT_TRUE(seen.has_value()) << seen.status().message();
  EXPECT_THAT(numbers(*seen), ElementsAre(13, 14));
  EXPECT_EQ((*seen)[1].step, 2);
  EXPECT_EQ((*seen)[1].micro_batch, 1);
  EXPECT_EQ((*seen)[1].rank, 1);
  EXPECT_TRUE(trace_sequences(dataset, schedule(8, 2, 2, 10), 1, {.begin = 0, .end = 9})->empty());
}

TEST(SampleTrace, SamplesBehindTheLastStepAreNotSeen) {
  const OneSequenceASample dataset(100);
  EXPECT_TRUE(
      trace_sequences(dataset, schedule(8, 2, 2, 10), 0, {.begin = 80, .end = 99})->empty());
}

TEST(SampleTrace, WhatTheRunDoesNotHaveIsAnErrorWithTheNumbers) {
  const OneSequenceASample dataset(20);
  const TraceSchedule run = schedule(8, 2, 2, 10);
  const auto message = [&](int64_t step, int64_t rank) {
    const auto result = trace_step(dataset, run, step, rank);
    EXPECT_EQ(result.status().code(), StatusCode::kOutOfRange);
    return result.status().message();
  };
  EXPECT_EQ(message(0, -1), "step: expected 1 to 10, found 0");
  EXPECT_EQ(message(11, -1), "step: expected 1 to 10, found 11");
  EXPECT_EQ(message(1, 2), "data-parallel rank: expected 0 to 1, found 2");
  EXPECT_THAT(message(3, -1), HasSubstr("samples 16 to 23"));
  TraceSchedule cyclic = schedule(8, 2, 2, 10);
  cyclic.type = DataloaderType::kCyclic;
  EXPECT_EQ(trace_step(dataset, cyclic, 1, -1).status().code(), StatusCode::kUnsupported);
}

/// A dataset of random sequences with its index, held in memory.
class Indexed : public SampleDataset {
 public:
  Indexed(std::mt19937& random, bool extra_token, bool drop_last) {
    const int64_t sequences = 1 + static_cast<int64_t>(random() % 30);
    int64_t tokens = 0;
    for (int64_t i = 0; i < sequences; ++i) {
      lengths_.push_back(random() % 4 == 0 ? 0 : static_cast<int32_t>(random() % 20));
      tokens += lengths_.back();
    }
    lengths_[0] = 12;
    tokens = 0;
    for (const int32_t length : lengths_) tokens += length;
    plan_ = *plan_gpt_index({.sequences = sequences,
                             .tokens = tokens,
                             .longest_sequence = 20,
                             .samples = static_cast<int64_t>(random() % 60),
                             .sequence_length = 1 + static_cast<int64_t>(random() % 11),
                             .extra_token = extra_token,
                             .drop_last_partial = drop_last},
                            megatron::newest_megatron_version());
    numpy::RandomState shuffler(static_cast<uint32_t>(random()));
    documents_.resize(static_cast<size_t>(plan_.documents()));
    EXPECT_TRUE(
        build_document_index(plan_, {.begin = 0, .end = sequences}, shuffler, documents_).ok());
    const auto keep = [this](std::span<const int32_t> rows) -> Status {
      rows_.insert(rows_.end(), rows.begin(), rows.end());
      return {};
    };
    EXPECT_TRUE(build_sample_index<int32_t>(plan_, lengths(), documents_, keep).ok());
    shuffle_.resize(static_cast<size_t>(plan_.samples));
    EXPECT_TRUE(build_shuffle_index<uint32_t>(plan_, shuffler, shuffle_).ok());
    index_ = GptIndex(documents_, rows_, shuffle_, nullptr);
  }

  int64_t size() const override { return plan_.samples; }

  int64_t text_length() const override { return plan_.sequence_length + plan_.extra_token; }

  Status text(int64_t, int64_t, std::span<int64_t>) const override { return {}; }

  Result<SampleSource> source(int64_t sample) const override {
    SampleSource source;
    MEG_RETURN_IF_ERROR(walk_sample(
        index_, index_.row_of(sample), plan_.extra_token,
        [this](int64_t sequence) { return int64_t{lengths_[static_cast<size_t>(sequence)]}; },
        [&source](const SamplePart& part) -> Status {
          source.parts.push_back(part);
          return {};
        }));
    return source;
  }

  std::vector<std::string> prefixes() const override { return {"p"}; }

  dataset::LittleEndianArray<int32_t> lengths() const {
    return dataset::LittleEndianArray<int32_t>(std::as_bytes(std::span(lengths_)));
  }

  Result<std::vector<int64_t>> found_by_search(dataset::SequenceRange range) const {
    return samples_with_sequences(index_, plan_, lengths(), range);
  }

  std::vector<uint32_t>& shuffle() { return shuffle_; }

  std::vector<int32_t>& rows() { return rows_; }

 private:
  std::vector<int32_t> lengths_;
  GptIndexPlan plan_;
  std::vector<int32_t> documents_;
  std::vector<int32_t> rows_;
  std::vector<uint32_t> shuffle_;
  GptIndex index_;
};

TEST(SequenceSamples, AreThoseWhoseSourceNamesTheSequences) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    const Indexed dataset(random, random() % 2 == 0, random() % 2 == 0);
    const auto begin = static_cast<int64_t>(random() % 30);
    const dataset::SequenceRange range{.begin = begin,
                                       .end = begin + static_cast<int64_t>(random() % 4)};
    const auto wanted = dataset.samples_with(0, range);
    const auto found = dataset.found_by_search(range);
    ASSERT_TRUE(wanted.has_value()) << wanted.status().message();
    ASSERT_TRUE(found.has_value()) << found.status().message();
    ASSERT_EQ(*found, *wanted) << "round " << round;
  }
}

TEST(SequenceSamples, DamagedIndicesAreErrorsOrWrongNeverOutsideTheirData) {
  std::mt19937 random(8);
  int refused = 0;
  for (int round = 0; round < 500; ++round) {
    Indexed dataset(random, true, true);
    if (dataset.size() == 0) continue;
    for (int32_t& row : dataset.rows()) {
      if (random() % 4 == 0) row = static_cast<int32_t>(random());
    }
    if (round % 2 == 0) dataset.shuffle()[0] = static_cast<uint32_t>(random());
    if (!dataset.found_by_search({.begin = -5, .end = INT64_MAX}).has_value()) ++refused;
  }
  EXPECT_GT(refused, 100);
}

TEST(SequenceSamples, FindThoseOfADatasetInABlend) {
  std::mt19937 random(9);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::unique_ptr<SampleDataset>> parts;
    std::vector<int64_t> sizes;
    for (int i = 0; i < 3; ++i) {
      parts.push_back(std::make_unique<Indexed>(random, true, true));
      sizes.push_back(parts.back()->size());
    }
    auto datasets = std::make_shared<std::vector<int16_t>>();
    auto samples = std::make_shared<std::vector<int64_t>>();
    for (int i = 0; i < 50; ++i) {
      const size_t part = random() % 3;
      if (sizes[part] == 0) continue;
      datasets->push_back(static_cast<int16_t>(part));
      samples->push_back(static_cast<int64_t>(random() % static_cast<uint64_t>(sizes[part])));
    }
    const BlendedDataset blend(
        std::move(parts),
        {.datasets = std::span<const int16_t>(*datasets), .samples = *samples, .owner = nullptr});
    for (int64_t dataset = 0; dataset < 4; ++dataset) {
      const dataset::SequenceRange range{.begin = 0, .end = 5};
      EXPECT_EQ(*blend.samples_with(dataset, range),
                *blend.SampleDataset::samples_with(dataset, range));
    }
  }
}

}  // namespace
}  // namespace meg::samples
