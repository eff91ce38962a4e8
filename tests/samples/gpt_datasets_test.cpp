#include "libmeg/samples/gpt_datasets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <limits>
#include <numeric>
#include <vector>

#include "libmeg/dataset/indexed_dataset_builder.h"
#include "libmeg/numpy/npy.h"
#include "tests/dataset/dataset_bytes.h"
#include "tests/temp_folder.h"

namespace meg::samples {
namespace {

using test::TempFolder;
using ::testing::AnyOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// A dataset whose documents have these lengths; its tokens count from `first` on.
std::string make_dataset(const TempFolder& folder, const std::string& name,
                         const std::vector<int32_t>& lengths, int32_t first = 0,
                         dataset::IndexFormat format = dataset::IndexFormat::kMmididx) {
  const std::string prefix = folder.path(name);
  auto builder =
      dataset::IndexedDatasetBuilder::create(prefix, {.format = format, .dtype = DType::kInt32});
  EXPECT_TRUE(builder.has_value());
  for (const int32_t length : lengths) {
    std::vector<int32_t> tokens(static_cast<size_t>(length));
    std::iota(tokens.begin(), tokens.end(), first);
    first += length;
    EXPECT_TRUE(builder->add_item(std::as_bytes(std::span(tokens))).ok());
    EXPECT_TRUE(builder->end_document().ok());
  }
  EXPECT_TRUE(builder->finish().ok());
  return prefix;
}

GptDataConfig config_of(const TempFolder& folder, Blend blend) {
  GptDataConfig config;
  config.blend = std::move(blend);
  config.split = "100,0,0";
  config.samples = {4, 0, 0};
  config.sequence_length = 8;
  config.cache_path = folder.path("cache");
  return config;
}

/// None where there is no such folder.
std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    names.push_back(entry.path().filename());
  }
  return names;
}

std::string error_of(const GptDataConfig& config) {
  const auto built = build_gpt_datasets(config);
  return built.has_value() ? "no error" : built.error().message();
}

TEST(GptDatasets, DrawSamplesOfADatasetShorterThanOne) {
  const TempFolder folder;
  const std::string prefix = make_dataset(folder, "short", {3, 1});
  const std::string other = make_dataset(folder, "other", {40}, 100);
  const auto alone = build_gpt_datasets(config_of(folder, {.prefixes = {prefix}, .weights = {}}));
  ASSERT_TRUE(alone.has_value()) << alone.error().message();
  EXPECT_EQ(alone->splits[0]->size(), 4);
  const auto blend =
      build_gpt_datasets(config_of(folder, {.prefixes = {prefix, other}, .weights = {{1.0, 1.0}}}));
  ASSERT_TRUE(blend.has_value()) << blend.error().message();
  EXPECT_EQ(blend->splits[0]->size(), 4);
}

TEST(GptDatasets, ADatasetShorterThanOneSampleHasNoEpochOfThem) {
  const TempFolder folder;
  const std::string prefix = make_dataset(folder, "short", {3, 1});
  const std::string other = make_dataset(folder, "other", {40});
  GptDataConfig config = config_of(folder, {.prefixes = {prefix}, .weights = {}});
  config.samples[0] = std::nullopt;
  const auto built = build_gpt_datasets(config);
  ASSERT_TRUE(built.has_value()) << built.error().message();
  EXPECT_EQ(built->splits[0], nullptr);
  EXPECT_THAT(built->notes, testing::Contains(HasSubstr("no whole sample of `seq_length` 8")));
  config.blend->prefixes.push_back(other);
  EXPECT_EQ(error_of(config),
            prefix +
                ": expected at least one whole sample in the train split of a blend without "
                "weights, found none");
}

TEST(GptDatasets, DrawFromAViewWhoseLastSequenceIsNotTheLastInBin) {
  const TempFolder folder;
  const std::string prefix = folder.path("view");
  std::vector<int32_t> tokens(100);
  std::iota(tokens.begin(), tokens.end(), 0);
  auto fields = test::index_fields(4, {60, 4}, {0, 1, 2});
  fields.pointers = {160, 0};
  test::write_dataset(prefix, fields.bytes(), test::bytes_string(tokens));
  const auto built = build_gpt_datasets(config_of(folder, {.prefixes = {prefix}, .weights = {}}));
  ASSERT_TRUE(built.has_value()) << built.error().message();
  EXPECT_EQ(built->splits[0]->size(), 7);  // of 64 tokens
  std::vector<int64_t> text(9);
  for (int64_t sample = 0; sample < 7; ++sample) {
    ASSERT_TRUE(built->splits[0]->text(sample, -1, text).ok());
    for (const int64_t token : text) EXPECT_TRUE(token >= 40 || token < 4) << token;
  }
}

TEST(GptDatasets, DrawTheSameFromBothFormats) {
  const std::vector<int32_t> lengths = {7, 0, 30, 1, 12};
  std::vector<std::vector<int64_t>> texts;
  for (const auto format : {dataset::IndexFormat::kMmididx, dataset::IndexFormat::kTntidx}) {
    const TempFolder folder;
    const std::string prefix = make_dataset(folder, "data", lengths, 0, format);
    GptDataConfig config = config_of(folder, {.prefixes = {prefix}, .weights = {}});
    config.format = format;
    for (const bool is_cached : {false, true}) {
      const auto built = build_gpt_datasets(config);
      ASSERT_TRUE(built.has_value()) << built.error().message();
      ASSERT_EQ(built->splits[0]->size(), 6);  // of 50 tokens
      std::vector<int64_t>& text = texts.emplace_back(6 * 9);
      for (int64_t sample = 0; sample < 6; ++sample) {
        const auto out = std::span(text).subspan(static_cast<size_t>(sample) * 9, 9);
        ASSERT_TRUE(built->splits[0]->text(sample, -1, out).ok()) << is_cached;
      }
    }
  }
  EXPECT_THAT(texts, Each(texts.front()));
}

TEST(GptDatasets, RefuseAFormatThatWasNotAskedFor) {
  const TempFolder folder;
  const std::string prefix = make_dataset(folder, "data", {30}, 0, dataset::IndexFormat::kTntidx);
  GptDataConfig config = config_of(folder, {.prefixes = {prefix}, .weights = {}});
  config.format = dataset::IndexFormat::kMmididx;
  EXPECT_EQ(error_of(config), prefix + ".idx: expected MMIDIDX by `data_impl`, found TNTIDX");
  config.format = std::nullopt;
  EXPECT_EQ(error_of(config), "no error");
}

TEST(GptDatasets, RefuseNumbersOutOfRange) {
  const TempFolder folder;
  const std::string prefix = make_dataset(folder, "data", {30});
  GptDataConfig config = config_of(folder, {.prefixes = {prefix}, .weights = {}});
  config.seed = int64_t{1} << 32;
  EXPECT_EQ(error_of(config), "`seed`: expected 0 to 4294967295, found 4294967296");
  config.seed = -1;
  EXPECT_THAT(error_of(config), HasSubstr("found -1"));
  config.seed = 1;
  config.sequence_length = 0;
  EXPECT_EQ(error_of(config), "`seq_length`: expected at least 1, found 0");
  config.sequence_length = 8;
  config.samples[1] = -3;
  EXPECT_EQ(error_of(config), "valid samples: expected at least 0, found -3");
  config.samples[1] = 0;
  config.split = "0,0,0";
  EXPECT_EQ(error_of(config), "`split`: expected weights with a sum above 0, found \"0,0,0\"");
  config.split = "1,1,1,1";
  EXPECT_THAT(error_of(config), HasSubstr("one to three weights"));
}

TEST(GptDatasets, RefuseASplitOnWhichMegatronHangs) {
  const TempFolder folder;
  const std::string prefix = make_dataset(folder, "data", {30, 20, 0});
  GptDataConfig config = config_of(folder, {.prefixes = {prefix}, .weights = {}});
  config.split = "98,1,1";  // rounding leaves nothing to the others
  EXPECT_EQ(error_of(config),
            prefix +
                ": valid split (`split` 98,1,1): expected tokens in the sequences [3, 3) of 3, "
                "found none (Megatron-LM loops forever here): set the weight of the split to 0, or "
                "add documents");
  config.split = "2,1,0";  // an empty document
  EXPECT_THAT(error_of(config), HasSubstr("expected tokens in the sequences [2, 3) of 3"));
}

TEST(GptDatasets, SkipSplitsOfWeight0WithANote) {
  const TempFolder folder;
  const std::string prefix = make_dataset(folder, "data", {30, 20});
  GptDataConfig config = config_of(folder, {.prefixes = {prefix}, .weights = {}});
  config.split = "1,0,0";
  config.samples = {4, 2, 2};
  const auto built = build_gpt_datasets(config);
  ASSERT_TRUE(built.has_value()) << built.error().message();
  EXPECT_NE(built->splits[0], nullptr);
  EXPECT_EQ(built->splits[1], nullptr);
  EXPECT_EQ(built->splits[2], nullptr);
  EXPECT_THAT(
      built->notes,
      ElementsAre(prefix + ": no documents for the valid split (`split` 1,0,0): it is skipped",
                  prefix + ": no documents for the test split (`split` 1,0,0): it is skipped"));
}

TEST(GptDatasets, MayHaveNothingToTrainOn) {
  const TempFolder folder;
  const std::string prefix = make_dataset(folder, "data", {30, 20});
  GptDataConfig config = config_of(folder, {.prefixes = {prefix}, .weights = {}});
  config.split = "0,100,0";
  config.samples = {4, 2, 2};
  const auto built = build_gpt_datasets(config);
  ASSERT_TRUE(built.has_value()) << built.error().message();
  EXPECT_EQ(built->splits[0], nullptr);
  EXPECT_NE(built->splits[1], nullptr);
}

TEST(GptDatasets, RefuseABlendOfWhichSomeLackASplit) {
  const TempFolder folder;
  const std::string a = make_dataset(folder, "a", {30});
  const std::string b = make_dataset(folder, "b", {30, 30, 30});
  GptDataConfig config = config_of(folder, {.prefixes = {b, a}, .weights = {{1.0, 1.0}}});
  config.version = *megatron::parse_megatron_version("v2.6");  // a split has documents or is none
  config.split = "2,1,0";
  config.samples = {4, 2, 0};
  EXPECT_EQ(error_of(config),
            a + ": expected documents for the valid split (`split` 2,1,0) as the rest of the blend "
                "has, found none");
}

TEST(GptDatasets, RepeatAShortDatasetUntilAllSamplesAreDrawn) {
  const TempFolder folder;
  const std::string prefix = make_dataset(folder, "data", {10});
  GptDataConfig config = config_of(folder, {.prefixes = {prefix}, .weights = {}});
  config.samples[0] = 25;
  const auto built = build_gpt_datasets(config);
  ASSERT_TRUE(built.has_value()) << built.error().message();
  ASSERT_EQ(built->splits[0]->size(), 26);
  // All tokens of 21 epochs, shuffled as a whole: sample texts overlap by one token.
  std::vector<int64_t> text(9);
  for (int64_t sample = 0; sample < 26; ++sample) {
    ASSERT_TRUE(built->splits[0]->text(sample, -1, text).ok());
    for (size_t i = 1; i < text.size(); ++i) EXPECT_EQ(text[i], (text[i - 1] + 1) % 10);
  }
  EXPECT_EQ(built->splits[0]->text(26, -1, text).code(), StatusCode::kOutOfRange);
  EXPECT_EQ(built->splits[0]->text(-1, -1, text).code(), StatusCode::kOutOfRange);
}

TEST(GptDatasets, BlendDrawsFromEachDatasetByItsWeight) {
  const TempFolder folder;
  const std::string a = make_dataset(folder, "a", {200}, 0);
  const std::string b = make_dataset(folder, "b", {200}, 1000);
  GptDataConfig config = config_of(folder, {.prefixes = {a, b}, .weights = {{3.0, 1.0}}});
  config.samples[0] = 20;
  for (const int threads : {1, 2}) {
    config.threads = threads;
    const auto built = build_gpt_datasets(config);
    ASSERT_TRUE(built.has_value()) << built.error().message();
    const SampleDataset& blend = *built->splits[0];
    EXPECT_EQ(blend.size(), 20);
    EXPECT_THAT(blend.prefixes(), ElementsAre(a, b));
    int from_b = 0;
    std::vector<int64_t> text(9);
    for (int64_t sample = 0; sample < blend.size(); ++sample) {
      ASSERT_TRUE(blend.text(sample, -1, text).ok());
      EXPECT_EQ(blend.source(sample)->dataset, text[0] >= 1000 ? 1 : 0);
      from_b += text[0] >= 1000 ? 1 : 0;
    }
    EXPECT_EQ(from_b, 5);
  }
}

TEST(GptDatasets, CancelledTheyLeaveNothingUnfinished) {
  const TempFolder folder;
  const std::string a = make_dataset(folder, "a", {200});
  const std::string b = make_dataset(folder, "b", {200}, 1000);
  GptDataConfig config = config_of(folder, {.prefixes = {a, b}, .weights = {{3.0, 1.0}}});
  std::atomic<int> asked = 0;
  int most = std::numeric_limits<int>::max();
  config.cancelled = [&] { return ++asked > most; };
  ASSERT_TRUE(build_gpt_datasets(config).has_value());
  const int all = asked;
  EXPECT_GE(all, 8) << "twice for each dataset, once for each index and for the blend";
  for (most = 0; most < all; ++most) {
    std::filesystem::remove_all(*config.cache_path);
    asked = 0;
    const auto built = build_gpt_datasets(config);
    ASSERT_FALSE(built.has_value());
    EXPECT_EQ(built.error().code(), StatusCode::kCancelled);
    EXPECT_THAT(built.error().message(), HasSubstr(": interrupted"));
    EXPECT_THAT(names_in(*config.cache_path),
                Each(Not(AnyOf(HasSubstr(".partial"), HasSubstr(".lock")))));
    config.cancelled = {};
    const auto again = build_gpt_datasets(config);
    ASSERT_TRUE(again.has_value()) << again.error().message();
    for (const IndexCacheReport& cache : again->caches) {
      EXPECT_NE(cache.outcome, CacheOutcome::kRebuilt) << cache.reason;
    }
    config.cancelled = [&] { return ++asked > most; };
  }
}

/// The texts of all samples, or the first error.
std::vector<std::vector<int64_t>> texts_of(const SampleDataset& dataset, Status* error = nullptr) {
  std::vector<std::vector<int64_t>> texts;
  for (int64_t sample = 0; sample < dataset.size(); ++sample) {
    std::vector<int64_t> text(static_cast<size_t>(dataset.text_length()));
    const Status status = dataset.text(sample, -1, text);
    if (!status.ok()) {
      if (error != nullptr) *error = status;
      return {};
    }
    texts.push_back(std::move(text));
  }
  return texts;
}

/// Five datasets, of which no two stay mapped at once.
GptDataConfig crowded_config(const TempFolder& folder) {
  Blend blend{.prefixes = {}, .weights = std::vector<double>()};
  for (int i = 0; i < 5; ++i) {
    blend.prefixes.push_back(make_dataset(folder, "d" + std::to_string(i), {100, 50}, 1000 * i));
    blend.weights->push_back(i + 1);
  }
  GptDataConfig config = config_of(folder, std::move(blend));
  config.split = "1,1,0";
  config.samples = {60, 20, 0};
  config.mappings = {.kept = 0, .in_turn = 0};
  return config;
}

TEST(GptDatasets, GiveTheSameSamplesHoweverFewOfThemAreMapped) {
  const TempFolder folder;
  GptDataConfig config = crowded_config(folder);
  const auto crowded = build_gpt_datasets(config);
  ASSERT_TRUE(crowded.has_value()) << crowded.error().message();
  config.mappings = {};
  const auto roomy = build_gpt_datasets(config);
  ASSERT_TRUE(roomy.has_value()) << roomy.error().message();
  for (size_t split = 0; split < 2; ++split) {
    const auto texts = texts_of(*crowded->splits[split]);
    EXPECT_FALSE(texts.empty());
    EXPECT_EQ(texts, texts_of(*roomy->splits[split]));
    EXPECT_EQ(crowded->splits[split]->source(3)->dataset, roomy->splits[split]->source(3)->dataset);
  }
}

/// Mappings of files whose path has `part` in it.
int count_mappings(const std::string& part) {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.find(part) != std::string::npos) ++count;
  }
  return count;
}

TEST(GptDatasets, FindPresentCachesAndBuildTheOthers) {
  const TempFolder folder;
  Blend blend{.prefixes = {}, .weights = std::vector<double>()};
  for (int i = 0; i < 70; ++i) {
    blend.prefixes.push_back(make_dataset(folder, "d" + std::to_string(i), {100}, 1000 * i));
    blend.weights->push_back(1 + i % 3);
  }
  GptDataConfig config = config_of(folder, blend);
  config.samples[0] = 200;
  const auto built = build_gpt_datasets(config);
  ASSERT_TRUE(built.has_value()) << built.error().message();
  ASSERT_EQ(built->caches.size(), 71);
  std::filesystem::remove(built->caches[13].files[1]);
  for (const std::string& file : built->caches[40].files) std::filesystem::remove(file);
  const auto again = build_gpt_datasets(config);
  ASSERT_TRUE(again.has_value()) << again.error().message();
  for (size_t i = 0; i < 70; ++i) {
    EXPECT_EQ(again->caches[i].prefix, blend.prefixes[i]);
    EXPECT_EQ(again->caches[i].outcome, i == 13   ? CacheOutcome::kRebuilt
                                        : i == 40 ? CacheOutcome::kBuilt
                                                  : CacheOutcome::kFound)
        << again->caches[i].reason;
  }
  EXPECT_EQ(texts_of(*again->splits[0]), texts_of(*built->splits[0]));
}

TEST(GptDatasets, MapNoMoreFilesThanTheirShare) {
  const TempFolder folder;
  const GptDataConfig config = crowded_config(folder);
  const auto built = build_gpt_datasets(config);
  ASSERT_TRUE(built.has_value()) << built.error().message();
  EXPECT_FALSE(texts_of(*built->splits[0]).empty());
  EXPECT_LE(count_mappings(folder.path()), 5) << "one dataset or one index, and what was pinned";
}

TEST(GptDatasets, WhatIsOpenedAgainMustBeWhatTheRunBeganWith) {
  const TempFolder folder;
  const GptDataConfig config = crowded_config(folder);
  const auto built = build_gpt_datasets(config);
  ASSERT_TRUE(built.has_value()) << built.error().message();
  make_dataset(folder, "d4", {100, 51}, 4000);
  Status error;
  texts_of(*built->splits[0], &error);
  EXPECT_EQ(error.code(), StatusCode::kCorruption);
  EXPECT_THAT(error.message(),
              HasSubstr("d4: expected the files that this run began with, found other sizes"));
}

TEST(GptDatasets, DeferredIndicesAreMappedAtTheirFirstSample) {
  const TempFolder folder;
  const std::string a = make_dataset(folder, "a", {200}, 0);
  const std::string b = make_dataset(folder, "b", {200}, 1000);
  GptDataConfig config = config_of(folder, {.prefixes = {a, b}, .weights = {{3.0, 1.0}}});
  config.samples[0] = 20;
  std::vector<std::vector<int64_t>> texts;
  {
    const auto built = build_gpt_datasets(config);
    ASSERT_TRUE(built.has_value()) << built.error().message();
    texts = texts_of(*built->splits[0]);
  }
  config.defer_npy_index_mmap = true;
  const auto deferred = build_gpt_datasets(config);
  ASSERT_TRUE(deferred.has_value()) << deferred.error().message();
  EXPECT_EQ(count_mappings("GPTDataset-train-"), 0);
  EXPECT_EQ(texts_of(*deferred->splits[0]), texts);
  EXPECT_EQ(count_mappings("GPTDataset-train-"), 6);
}

TEST(GptDatasets, DeferredIndicesThatAreOthersByThenAreAnError) {
  const TempFolder folder;
  const std::string prefix = make_dataset(folder, "data", std::vector<int32_t>(200, 8));
  GptDataConfig config = config_of(folder, {.prefixes = {prefix}, .weights = {}});
  config.samples[0] = 100;
  std::string shuffle;
  {
    const auto first = build_gpt_datasets(config);
    ASSERT_TRUE(first.has_value()) << first.error().message();
    shuffle = first->caches[0].files[2];
  }
  config.defer_npy_index_mmap = true;
  const auto deferred = build_gpt_datasets(config);
  ASSERT_TRUE(deferred.has_value()) << deferred.error().message();
  std::string bytes = test::read_file(shuffle);
  std::swap(bytes[bytes.size() - 4], bytes[bytes.size() - 8]);
  test::write_file(shuffle, bytes);
  Status error;
  texts_of(*deferred->splits[0], &error);
  EXPECT_EQ(error.code(), StatusCode::kCorruption);
  EXPECT_THAT(error.message(), HasSubstr("expected the index cache that this run began with"));
}

TEST(GptDatasets, ABlendThatDrawsTooMuchNamesSplitDatasetAndFlag) {
  const TempFolder folder;
  const std::string a = make_dataset(folder, "a", {200}, 0);
  const std::string b = make_dataset(folder, "b", {200}, 1000);
  GptDataConfig config = config_of(folder, {.prefixes = {a, b, a}, .weights = {{1.0, 1.0, 1.0}}});
  // A dataset of one sample more than it is asked for has no room for a margin below 0.
  config.mid_level_dataset_surplus = -0.9;
  config.samples[0] = 240;
  EXPECT_THAT(error_of(config),
              testing::AllOf(HasSubstr(": train split of the blend: expected at most its "),
                             testing::StartsWith(a),
                             HasSubstr("a `mid_level_dataset_surplus` above -0.9 gives it more")));
}

TEST(GptDatasets, BlendByWeightsNeedsASampleCount) {
  const TempFolder folder;
  const std::string a = make_dataset(folder, "a", {200});
  GptDataConfig config = config_of(folder, {.prefixes = {a, a}, .weights = {{3.0, 1.0}}});
  config.samples[0] = std::nullopt;
  EXPECT_EQ(error_of(config), "train: a blend by weights needs a number of samples, found None");
  config.version = *megatron::parse_megatron_version("core_v0.5.0");
  EXPECT_EQ(error_of(config),
            "train samples: revision core_v0.5.0 of Megatron needs a number, found None");
}

TEST(GptDatasets, DamagedIndicesGiveAnErrorAndNoBytesFromElsewhere) {
  const TempFolder folder;
  const std::string prefix = make_dataset(folder, "data", std::vector<int32_t>(2000, 8));
  const GptDataConfig config = config_of(folder, {.prefixes = {prefix}, .weights = {}});
  const auto first = build_gpt_datasets(config);
  ASSERT_TRUE(first.has_value());
  std::string sample_index = first->caches[0].description;
  sample_index.replace(sample_index.find("description.txt"), std::string::npos, "sample_index.npy");
  std::string bytes = test::read_file(sample_index);
  const size_t middle_row = bytes.size() - static_cast<size_t>(first->splits[0]->size() / 2) * 8;
  bytes[middle_row + 4] = 127;  // a token offset far beyond its sequence
  test::write_file(sample_index, bytes);
  const auto again = build_gpt_datasets(config);
  ASSERT_TRUE(again.has_value()) << again.error().message();
  std::vector<int64_t> text(9);
  int failed = 0;
  for (int64_t sample = 0; sample < again->splits[0]->size(); ++sample) {
    const Status status = again->splits[0]->text(sample, -1, text);
    if (!status.ok()) {
      EXPECT_EQ(status.code(), StatusCode::kCorruption);
      EXPECT_THAT(status.message(), HasSubstr("sample index: row"));
      ++failed;
    }
  }
  EXPECT_GE(failed, 1);
}

}  // namespace
}  // namespace meg::samples
