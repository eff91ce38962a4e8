// Every index case of the oracle: the cache files and samples that the real Megatron-LM gave at
// several revisions, byte for byte.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "libmeg/numpy/npy.h"
#include "libmeg/samples/blended_dataset.h"
#include "libmeg/samples/gpt_datasets.h"
#include "libmeg/samples/gpt_sample.h"
#include "tests/shared_data.h"
#include "tests/temp_folder.h"

namespace meg::samples {
namespace {

using nlohmann::json;
using test::read_file;
using test::TempFolder;

constexpr char kOracle[] = "oracle/datasets";
constexpr int64_t kEod = 50256;
constexpr int64_t kNoPad = -1;

const json& manifest() {
  static const json loaded = [] {
    std::ifstream file(test::shared_path("oracle/datasets/manifest.json"));
    return json::parse(file);
  }();
  return loaded;
}

/// The name of an output after the folder of its case.
std::string name_of(const json& output) {
  return std::filesystem::path(output["path"].get<std::string>()).filename();
}

std::string stored_bytes(const json& output) {
  const auto& name = output.contains("stored") ? output["stored"] : output["path"];
  return read_file(name.get<std::string>());
}

Blend blend_of(const json& pair) {
  Blend blend;
  blend.prefixes = pair[0].get<std::vector<std::string>>();
  if (!pair[1].is_null()) blend.weights = pair[1].get<std::vector<double>>();
  return blend;
}

/// Megatron core's cases give blends, 6ef5bdc's the arguments.
void set_data(const json& test_case, GptDataConfig& config) {
  if (test_case.contains("data_path")) {
    const auto arguments = test_case["data_path"].get<std::vector<std::string>>();
    config.blend = *parse_blend(arguments, config.version);
  } else if (test_case.contains("data") && test_case["data"].is_string()) {
    config.blend = Blend{.prefixes = {test_case["data"].get<std::string>()}, .weights = {}};
  } else if (test_case.contains("data")) {
    for (size_t i = 0; i < kSplits.size(); ++i) {
      config.per_split[i] =
          Blend{.prefixes = {test_case["data"][i].get<std::string>()}, .weights = {}};
    }
  } else if (!test_case["blend"].is_null()) {
    config.blend = blend_of(test_case["blend"]);
  } else {
    for (size_t i = 0; i < kSplits.size(); ++i) {
      config.per_split[i] = blend_of(test_case["blend_per_split"][i]);
    }
  }
}

megatron::TokenizerIdentity tokenizer_of(const std::string& revision) {
  if (revision == "core_v0.19.0") {
    return {
        .class_name = "megatron.core.tokenizers.text.models.default_tokenizer.DefaultTokenizerText",
        .tokenizer_path = {},
        .options = {{"vocab_size", "50257"}}};
  }
  return {.class_name = "_GPT2BPETokenizer",
          .tokenizer_path =
              std::vector<std::optional<std::string>>{"gpt2/vocab.json", "gpt2/merges.txt"},
          .options = {}};
}

bool option(const json& test_case, const char* name, bool otherwise) {
  return test_case.contains("options") ? test_case["options"].value(name, otherwise) : otherwise;
}

GptDataConfig config_of(const json& test_case, const std::string& cache_path) {
  GptDataConfig config;
  config.version = *megatron::parse_megatron_version(test_case["revision"].get<std::string>());
  set_data(test_case, config);
  if (!test_case["split"].is_null()) config.split = test_case["split"];
  for (size_t i = 0; i < kSplits.size(); ++i) {
    const json& samples = test_case["num_samples"][i];
    if (!samples.is_null()) config.samples[i] = samples.get<int64_t>();
  }
  config.sequence_length = test_case["seq_length"];
  config.seed = test_case["seed"];
  config.cache_path = cache_path;
  config.tokenizer = tokenizer_of(test_case["revision"]);
  config.extra_token = option(test_case, "add_extra_token_to_sequence", true);
  config.drop_last_partial_validation_sequence =
      option(test_case, "drop_last_partial_validation_sequence", true);
  return config;
}

/// Cache files begin with an md5; the others hold what the oracle read through them.
bool is_cache_file(const std::string& name) {
  constexpr size_t kMd5Digits = 32;
  return name.find_first_not_of("0123456789abcdef") == kMd5Digits;
}

/// The cache folder holds what Megatron wrote, and beside it nothing but libmeg's sidecars.
void expect_same_files(const json& test_case, const std::string& folder) {
  std::set<std::string> expected;
  for (const json& output : test_case["outputs"]) {
    const std::string name = name_of(output);
    if (!is_cache_file(name)) continue;
    expected.insert(name);
    ASSERT_TRUE(std::filesystem::exists(folder + "/" + name)) << name;
    EXPECT_TRUE(read_file(folder + "/" + name) == stored_bytes(output)) << name;
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    EXPECT_TRUE(expected.contains(name) || name.ends_with("-libmeg.json")) << name;
  }
}

/// The rows of one sample file, by the name that the manifest gives it; empty where there is none.
struct SampleFile {
  std::vector<int64_t> values;
  size_t row = 0;  ///< Elements of one sample.
};

std::vector<int64_t> widened(const numpy::NpyFile& file) {
  std::vector<int64_t> values;
  const auto take = [&values](auto found) { values.assign(found->begin(), found->end()); };
  switch (file.dtype()) {
    case DType::kInt32:
      take(file.values<int32_t>());
      break;
    case DType::kInt64:
      take(file.values<int64_t>());
      break;
    case DType::kUint8:
      take(file.values<uint8_t>());
      break;
    case DType::kInt16:
      take(file.values<int16_t>());
      break;
    default:
      ADD_FAILURE() << file.path() << ": " << dtype_name(file.dtype());
  }
  return values;
}

std::map<std::string, SampleFile> sample_files(const json& test_case, const json& split) {
  std::map<std::string, SampleFile> files;
  if (!split.contains("sample_files")) return files;
  for (const auto& [field, name] : split["sample_files"].items()) {
    for (const json& output : test_case["outputs"]) {
      if (name_of(output) != name.get<std::string>()) continue;
      const auto& path = output.contains("stored") ? output["stored"] : output["path"];
      const Result<numpy::NpyFile> file = numpy::NpyFile::open(path.get<std::string>());
      EXPECT_TRUE(file.has_value()) << path;
      SampleFile& found = files[field];
      found.values = widened(*file);
      found.row = found.values.size() / static_cast<size_t>(file->shape()[0]);
    }
  }
  return files;
}

template <class T>
void expect_row(const std::map<std::string, SampleFile>& files, const std::string& field,
                size_t row, const std::vector<T>& found) {
  const auto file = files.find(field);
  if (file == files.end()) return;
  const SampleFile& expected = file->second;
  ASSERT_EQ(expected.row, found.size()) << field;
  const auto* first = expected.values.data() + row * expected.row;
  EXPECT_TRUE(std::equal(found.begin(), found.end(), first,
                         [](T a, int64_t b) { return static_cast<int64_t>(a) == b; }))
      << field << " of sample " << row;
}

/// numpy.packbits of a mask whose elements are 0 or 1.
std::vector<uint8_t> packed(const std::vector<uint8_t>& mask) {
  std::vector<uint8_t> bytes((mask.size() + 7) / 8);
  for (size_t i = 0; i < mask.size(); ++i) {
    bytes[i / 8] = static_cast<uint8_t>(bytes[i / 8] | (mask[i] << (7 - i % 8)));
  }
  return bytes;
}

/// Megatron core 0.6 to 0.14 kept one mask for all samples; libmeg does not follow it there.
bool shares_mask(const json& test_case) {
  static const std::set<std::string> kRevisions = {"core_v0.9.0"};
  return kRevisions.contains(test_case["revision"].get<std::string>()) &&
         !option(test_case, "reset_position_ids", false) &&
         !option(test_case, "reset_attention_mask", false) &&
         !option(test_case, "eod_mask_loss", false);
}

/// What the trainer is given of one sample.
struct Sample {
  std::vector<int64_t> text, tokens, labels, position_ids;
  std::vector<float> loss_mask;
  std::vector<uint8_t> attention_mask;
};

GptSampleOptions sample_options(const json& test_case) {
  GptSampleOptions options;
  options.sequence_length = test_case["seq_length"];
  options.extra_token = option(test_case, "add_extra_token_to_sequence", true);
  options.eod = kEod;
  options.reset_position_ids = option(test_case, "reset_position_ids", false);
  options.reset_attention_mask = option(test_case, "reset_attention_mask", false);
  options.eod_mask_loss = option(test_case, "eod_mask_loss", false);
  return options;
}

Sample read_sample(const SampleDataset& dataset, int64_t number, const GptSampleOptions& options,
                   bool with_attention_mask) {
  const auto length = static_cast<size_t>(options.sequence_length);
  Sample sample;
  sample.text.resize(static_cast<size_t>(dataset.text_length()));
  EXPECT_TRUE(dataset.text(number, kNoPad, sample.text).ok());
  sample.tokens.resize(length);
  sample.labels.resize(length);
  sample.position_ids.resize(length);
  sample.loss_mask.resize(length);
  if (with_attention_mask) sample.attention_mask.resize(length * length);
  fill_gpt_sample(sample.text, options,
                  {.tokens = sample.tokens,
                   .labels = sample.labels,
                   .loss_mask = sample.loss_mask,
                   .position_ids = sample.position_ids,
                   .attention_mask = sample.attention_mask});
  return sample;
}

/// Gives every sample the mask in which all of their masked positions are masked.
void share_mask(std::vector<Sample>& samples) {
  std::vector<float> shared = samples[0].loss_mask;
  for (const Sample& sample : samples) {
    for (size_t i = 0; i < shared.size(); ++i) shared[i] *= sample.loss_mask[i];
  }
  for (Sample& sample : samples) sample.loss_mask = shared;
}

void expect_same_samples(const json& test_case, const json& split, const SampleDataset& dataset) {
  const auto files = sample_files(test_case, split);
  const auto attention = files.find("attention_mask_packed");
  std::vector<Sample> samples;
  for (const json& number : split["sample_ids"]) {
    samples.push_back(
        read_sample(dataset, number, sample_options(test_case), attention != files.end()));
  }
  if (shares_mask(test_case)) share_mask(samples);
  for (size_t row = 0; row < samples.size(); ++row) {
    const Sample& sample = samples[row];
    expect_row(files, "text", row, sample.text);
    expect_row(files, "tokens", row, sample.tokens);
    expect_row(files, "labels", row, sample.labels);
    expect_row(files, "loss_mask", row, sample.loss_mask);
    expect_row(files, "position_ids", row, sample.position_ids);
    const bool has_mask =
        attention != files.end() && row * attention->second.row < attention->second.values.size();
    if (has_mask) expect_row(files, "attention_mask_packed", row, packed(sample.attention_mask));
  }
}

void expect_same_blend(const json& test_case, const json& split, const SampleDataset& dataset) {
  const auto* blended = dynamic_cast<const BlendedDataset*>(&dataset);
  if (!split.contains("sub_lens")) {
    EXPECT_EQ(blended, nullptr);
    return;
  }
  ASSERT_NE(blended, nullptr);
  std::vector<int64_t> lengths;
  for (const auto& part : blended->datasets()) lengths.push_back(part->size());
  EXPECT_EQ(json(lengths), split["sub_lens"]);
  auto files = sample_files(test_case, split);
  std::vector<int64_t> drawn;
  for (const json& sample : split["sample_ids"]) drawn.push_back(blended->locate(sample)->first);
  for (const char* field : {"dataset_id", "dataset_idx"}) {
    if (files.contains(field)) {
      EXPECT_EQ(files[field].values, drawn);
    }
  }
}

void check(const json& test_case) {
  const TempFolder folder;
  const GptDataConfig config = config_of(test_case, folder.path());
  const Result<GptDatasets> built = build_gpt_datasets(config);
  ASSERT_TRUE(built.has_value()) << built.error().message();
  expect_same_files(test_case, folder.path());
  for (const Split split : kSplits) {
    SCOPED_TRACE(split_name(split));
    const json& expected = test_case["splits"][std::string(split_name(split))];
    const auto& dataset = built->splits[split_number(split)];
    ASSERT_EQ(dataset == nullptr, expected.is_null());
    if (dataset == nullptr) continue;
    EXPECT_EQ(dataset->size(), expected["len"].get<int64_t>());
    if (expected.contains("sample_ids")) expect_same_samples(test_case, expected, *dataset);
    expect_same_blend(test_case, expected, *dataset);
  }
  const Result<GptDatasets> again = build_gpt_datasets(config);
  ASSERT_TRUE(again.has_value()) << again.error().message();
  for (const IndexCacheReport& cache : again->caches) {
    EXPECT_EQ(cache.outcome, CacheOutcome::kFound) << cache.description << cache.reason;
  }
}

class MegatronCases : public ::testing::TestWithParam<std::string> {};

TEST_P(MegatronCases, GiveTheSameCachesAndSamples) {
  MEG_REQUIRE_SHARED(kOracle);
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(test::shared_path(kOracle));
  int checked = 0;
  for (const json& test_case : manifest()["index"]) {
    const std::string name = test_case["case"];
    if (test_case["revision"] != GetParam() || name == "mock") continue;
    if (!test_case.contains("splits")) continue;
    SCOPED_TRACE(name);
    check(test_case);
    ++checked;
  }
  std::filesystem::current_path(before);
  EXPECT_GE(checked, 15);
}

INSTANTIATE_TEST_SUITE_P(Revisions, MegatronCases,
                         ::testing::Values("6ef5bdc", "core_v0.4.0", "core_v0.5.0", "core_v0.9.0",
                                           "core_v0.15.3", "core_v0.19.0"),
                         [](const auto& revision) {
                           std::string name = revision.param;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

TEST(SplitBounds, AreMegatronsForEverySize) {
  MEG_REQUIRE_SHARED(kOracle);
  for (const std::string revision :
       {"6ef5bdc", "core_v0.5.0", "core_v0.9.0", "core_v0.15.3", "core_v0.19.0"}) {
    const std::string path =
        test::shared_path(std::string(kOracle) + "/C/" + revision + "/split_bounds.json");
    if (!std::filesystem::exists(path)) continue;
    const megatron::MegatronVersion version = *megatron::parse_megatron_version(revision);
    for (const json& bound : json::parse(std::ifstream(path))) {
      SCOPED_TRACE(revision + " " + bound.dump());
      const auto weights = SplitWeights::parse(bound["split"].get<std::string>(), version);
      ASSERT_TRUE(weights.has_value());
      const auto ranges = weights->ranges(bound["size"]);
      for (size_t i = 0; i < kSplits.size(); ++i) {
        json expected = bound.contains("ranges")
                            ? bound["ranges"][i]
                            : json({bound["bounds"][i], bound["bounds"][i + 1]});
        if (bound.contains("bounds") && expected[0] == expected[1]) expected = nullptr;
        ASSERT_EQ(ranges[i].has_value(), !expected.is_null());
        if (ranges[i].has_value()) {
          EXPECT_EQ(json({ranges[i]->begin, ranges[i]->end}), expected);
        }
      }
    }
  }
}

}  // namespace
}  // namespace meg::samples
