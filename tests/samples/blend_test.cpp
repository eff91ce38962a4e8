#include "libmeg/samples/blend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>

#include "libmeg/numpy/npy.h"
#include "libmeg/samples/internal/blend_index.h"
#include "tests/shared_data.h"

namespace meg::samples {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const megatron::MegatronVersion& newest() { return megatron::newest_megatron_version(); }

Result<Blend> parse(const std::vector<std::string>& data_path,
                    std::string_view version = "core_v0.19.0") {
  return parse_blend(data_path, *megatron::parse_megatron_version(version));
}

TEST(ParseBlend, TakesOnePrefix) {
  const auto blend = parse({" data/a "});
  ASSERT_TRUE(blend.has_value());
  EXPECT_TRUE(blend->single());
  EXPECT_THAT(blend->prefixes, ElementsAre("data/a"));
}

TEST(ParseBlend, TakesEitherFileForItsPrefix) {
  const auto blend = parse({"0.5", "a.bin", "0.5", "b.idx"});
  ASSERT_TRUE(blend.has_value());
  EXPECT_THAT(blend->prefixes, ElementsAre("a", "b"));
}

TEST(ParseBlend, TakesWeightsInTurnWithPrefixes) {
  const auto blend = parse({"30", "a", "7e1", "b"});
  ASSERT_TRUE(blend.has_value());
  EXPECT_THAT(blend->prefixes, ElementsAre("a", "b"));
  EXPECT_THAT(*blend->weights, ElementsAre(30.0, 70.0));
}

TEST(ParseBlend, TakesPrefixesWithoutWeightsSinceCore07) {
  EXPECT_THAT(parse({"a", "b"})->prefixes, ElementsAre("a", "b"));
  EXPECT_FALSE(parse({"a", "b"})->weights.has_value());
  EXPECT_THAT(parse({"1", "b", "3"})->prefixes, ElementsAre("1", "b", "3"));
  EXPECT_FALSE(parse({"a", "b"}, "core_v0.6.0").has_value());
}

TEST(ParseBlend, RefusesWhatMegatronWouldTrip) {
  EXPECT_THAT(parse({"1", "a", "b", "c"}).error().message(),
              HasSubstr("found \"b\" as argument 3"));
  EXPECT_THAT(parse({"a", "b", "1", "c"}).error().message(),
              HasSubstr("found \"1\" as argument 3"));
  EXPECT_THAT(parse({"0", "a", "1", "b"}).error().message(),
              HasSubstr("weights above 0, found 0.0"));
  EXPECT_THAT(parse({"-1", "a"}).error().message(), HasSubstr("found -1.0"));
  EXPECT_THAT(parse({"0", "a"}, "6ef5bdc").error().message(), HasSubstr("a finite sum above 0"));
  EXPECT_THAT(parse({"1e308", "a", "1e308", "b"}, "core_v0.12.3").error().message(),
              HasSubstr("a finite sum above 0, found inf"));
  EXPECT_FALSE(parse({}).has_value());
}

TEST(BlendParts, FollowTheMarginOfTheRevision) {
  const std::vector<double> weights = {0.3, 0.5, 0.2};
  const auto now = *blend_parts(weights, 200, kMidLevelDatasetSurplus, newest());
  EXPECT_EQ(now[0].used, 60);
  EXPECT_EQ(now[0].built, 61);
  EXPECT_EQ(now[1].used, 100);
  EXPECT_EQ(now[1].built, 101);
  const auto then = *blend_parts(weights, 200, kMidLevelDatasetSurplus,
                                 *megatron::parse_megatron_version("core_v0.9.0"));
  EXPECT_EQ(then[0].used, 61);
  EXPECT_EQ(then[2].used, 41);
}

TEST(BlendParts, BuildTheSurplusThatIsAskedFor) {
  const std::vector<double> weights = {0.3, 0.5, 0.2};
  const auto parts = *blend_parts(weights, 200, 0.25, newest());
  EXPECT_EQ(parts[0].used, 60);
  EXPECT_EQ(parts[0].built, 75);
  EXPECT_EQ(parts[1].built, 125);
  const auto none = *blend_parts(weights, 200, 0, newest());
  EXPECT_EQ(none[2].built, none[2].used);
  const auto most = blend_parts(weights, 200, 1e300, newest());
  ASSERT_FALSE(most.has_value());
  EXPECT_THAT(
      most.error().message(),
      HasSubstr("`mid_level_dataset_surplus`: expected fewer than 9007199254740992 samples"));
}

TEST(NormalizedWeights, AddUpAsNumpyOrAsPythonDoes) {
  // Ten of 0.1 and one more: pairwise the sum is 1.1 exactly, one after another it is not.
  const std::vector<double> weights(11, 0.1);
  const double in_turn =
      normalized_data_path_weights(weights, *megatron::parse_megatron_version("6ef5bdc"))[0];
  const double pairwise = normalized_data_path_weights(weights, newest())[0];
  EXPECT_EQ(pairwise, normalized_weights(weights)[0]);
  EXPECT_EQ(pairwise, 0.1 / 1.1);
  EXPECT_EQ(in_turn, 0.1 / 1.0999999999999999);
}

/// Megatron's helper, with the datasets that still have samples where sizes are given.
std::vector<int16_t> drawn_plainly(const std::vector<double>& weights, size_t samples,
                                   const std::vector<int64_t>& sizes = {}) {
  std::vector<int64_t> used(weights.size());
  std::vector<int16_t> datasets;
  for (size_t sample = 0; sample < samples; ++sample) {
    const double place = std::max(static_cast<double>(sample), 1.0);
    double most = std::numeric_limits<double>::lowest();
    size_t best = 0;
    for (size_t i = 0; i < weights.size(); ++i) {
      if (!sizes.empty() && used[i] == sizes[i]) continue;
      const double behind = weights[i] * place - static_cast<double>(used[i]);
      if (behind <= most) continue;
      most = behind;
      best = i;
    }
    ++used[best];
    datasets.push_back(static_cast<int16_t>(best));
  }
  return datasets;
}

TEST(BlendIndex, FindsForManyDatasetsWhatALinearSearchFinds) {
  std::mt19937 random(7);
  for (const int datasets : {65, 100, 333, 1000}) {
    for (const int kind : {0, 1, 2, 3}) {
      std::vector<double> weights;
      for (int i = 0; i < datasets; ++i) {
        const auto draw = static_cast<double>(random() % 1000 + 1);
        // All equal; few different ones, which tie all the time; any; very unequal ones.
        weights.push_back(kind == 0   ? 1.0
                          : kind == 1 ? static_cast<double>(1 + random() % 3)
                          : kind == 2 ? draw / 7
                                      : draw * draw * draw);
      }
      weights = normalized_weights(weights);
      std::vector<int16_t> found(5000);
      std::vector<int64_t> numbers(found.size());
      ASSERT_TRUE(build_blend_index(weights, found, numbers).ok());
      EXPECT_EQ(found, drawn_plainly(weights, found.size())) << datasets << " " << kind;
    }
    std::vector<int64_t> sizes;
    for (int i = 0; i < datasets; ++i) sizes.push_back(1 + static_cast<int64_t>(random() % 9));
    const auto total = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
    std::vector<double> weights;
    for (const int64_t size : sizes) {
      weights.push_back(static_cast<double>(size) / static_cast<double>(total));
    }
    std::vector<int16_t> found(static_cast<size_t>(total));
    std::vector<int64_t> numbers(found.size());
    ASSERT_TRUE(build_exhaustive_blend_index(sizes, found, numbers).ok());
    EXPECT_EQ(found, drawn_plainly(weights, found.size(), sizes)) << datasets;
  }
}

TEST(BlendIndex, IsMegatronsForEveryCallOfItsHelpers) {
  MEG_REQUIRE_SHARED("oracle/datasets");
  int checked = 0;
  for (const std::string revision : {"6ef5bdc", "core_v0.5.0", "core_v0.9.0", "core_v0.15.3"}) {
    const std::string folder = test::shared_path("oracle/datasets/C/" + revision + "/helpers/");
    if (!std::filesystem::exists(folder + "helpers.json")) continue;
    const json helpers = json::parse(std::ifstream(folder + "helpers.json"));
    for (const json& call : helpers.value("build_blending_indices", json::array())) {
      if (!std::filesystem::exists(folder + call["files"][1].get<std::string>())) continue;
      const auto expected = numpy::NpyFile::open(folder + call["files"][1].get<std::string>());
      std::vector<int16_t> datasets(call["size"].get<size_t>());
      std::vector<int64_t> samples(datasets.size());
      EXPECT_TRUE(
          build_blend_index(call["weights"].get<std::vector<double>>(), datasets, samples).ok());
      ASSERT_TRUE(expected.has_value());
      EXPECT_TRUE(std::ranges::equal(*expected->values<int64_t>(), samples)) << call;
      ++checked;
    }
    for (const json& call : helpers.value("build_exhaustive_blending_indices", json::array())) {
      std::vector<int16_t> datasets(call["dataset_index"].size());
      std::vector<int64_t> samples(datasets.size());
      EXPECT_TRUE(
          build_exhaustive_blend_index(call["sizes"].get<std::vector<int64_t>>(), datasets, samples)
              .ok());
      EXPECT_EQ(json(datasets), call["dataset_index"]);
      EXPECT_EQ(json(samples), call["dataset_sample_index"]);
      ++checked;
    }
  }
  EXPECT_GE(checked, 5);
}

}  // namespace
}  // namespace meg::samples
