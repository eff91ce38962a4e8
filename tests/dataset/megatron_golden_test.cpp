// What the real Megatron-LM wrote: rebuilt byte for byte, read back, verified.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "libmeg/dataset/index_format.h"
#include "libmeg/dataset/indexed_dataset.h"
#include "libmeg/dataset/indexed_dataset_builder.h"
#include "libmeg/dataset/merge_datasets.h"
#include "libmeg/dataset/verify_dataset.h"
#include "tests/dataset/dataset_bytes.h"
#include "tests/shared_data.h"
#include "tests/temp_folder.h"

namespace meg::dataset {
namespace {

using nlohmann::json;
using test::read_file;
using test::TempFolder;
using ::testing::HasSubstr;

constexpr char kOracle[] = "oracle/datasets";
constexpr char kTwoDimensions[] = "fairseq_2d_int32";

const json& manifest() {
  static const json loaded = [] {
    std::ifstream file(test::shared_path("oracle/datasets/manifest.json"));
    return json::parse(file);
  }();
  return loaded;
}

/// Path of an output of the manifest, whose bytes may be stored under another name.
std::string stored_path(const json& output) {
  const auto& name = output.contains("stored") ? output["stored"] : output["path"];
  return test::shared_path(std::string(kOracle) + "/" + name.get<std::string>());
}

/// The .bin and .idx of an output list, by their prefixes as Megatron wrote them.
struct Pair {
  std::string bin;
  std::string idx;
};

std::map<std::string, Pair> pairs_of(const json& outputs) {
  std::map<std::string, Pair> pairs;
  for (const json& output : outputs) {
    const std::string path = output["path"];
    if (path.ends_with(".bin")) pairs[dataset_prefix(path)].bin = stored_path(output);
    if (path.ends_with(".idx")) pairs[dataset_prefix(path)].idx = stored_path(output);
  }
  std::erase_if(pairs, [](const auto& entry) {
    return entry.second.bin.empty() || entry.second.idx.empty();
  });
  return pairs;
}

/// Copies a pair beside each other, since the stored files need not be.
std::string place(const TempFolder& folder, const Pair& pair) {
  static int count = 0;
  const std::string prefix = folder.path(fmt::format("set{}", count++));
  std::filesystem::create_symlink(pair.bin, prefix + ".bin");
  std::filesystem::create_symlink(pair.idx, prefix + ".idx");
  return prefix;
}

IndexFormat format_of(const Pair& pair) {
  const std::string idx = read_file(pair.idx);
  return index_format(std::as_bytes(std::span(idx)));
}

template <class T>
std::string packed_values(const json& values) {
  return test::bytes_string(values.get<std::vector<T>>());
}

std::string packed(DType dtype, const json& values) {
  switch (dtype) {
    case DType::kUint8:
      return packed_values<uint8_t>(values);
    case DType::kInt8:
      return packed_values<int8_t>(values);
    case DType::kUint16:
      return packed_values<uint16_t>(values);
    case DType::kInt16:
      return packed_values<int16_t>(values);
    case DType::kInt32:
      return packed_values<int32_t>(values);
    case DType::kInt64:
      return packed_values<int64_t>(values);
    case DType::kFloat32:
      return packed_values<float>(values);
    default:
      return packed_values<double>(values);
  }
}

std::span<const std::byte> as_bytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

/// Writes the documents of a builder case; modes, where there are any, has their shape.
void build(const std::string& prefix, IndexFormat format, const json& builder_case) {
  const DType dtype = dtype_from_name(builder_case["dtype"].get<std::string>()).value();
  const json& modes = builder_case.contains("modes") ? builder_case["modes"] : json();
  auto builder = IndexedDatasetBuilder::create(
      prefix, {.format = format,
               .dtype = dtype,
               .multimodal = builder_case.value("multimodal", false),
               .legacy_float64_code = builder_case["revision"] == "v2.6"});
  ASSERT_TRUE(builder.has_value()) << builder.error().message();
  for (size_t d = 0; d < builder_case["docs"].size(); ++d) {
    const json& document = builder_case["docs"][d];
    for (size_t s = 0; s < document.size(); ++s) {
      const int8_t mode = modes.is_null() ? int8_t{0} : modes[d][s].get<int8_t>();
      const Status status = builder->add_item(as_bytes(packed(dtype, document[s])), mode);
      ASSERT_TRUE(status.ok()) << status.message();
    }
    ASSERT_TRUE(builder->end_document().ok());
  }
  const Status status = builder->finish();
  ASSERT_TRUE(status.ok()) << status.message();
}

/// Reads a dataset and compares it with the documents of a builder case.
void expect_documents(const std::string& prefix, const json& builder_case) {
  const bool multimodal = builder_case.value("multimodal", false);
  const auto dataset = IndexedDataset::open(prefix, {.multimodal = multimodal});
  ASSERT_TRUE(dataset.has_value()) << dataset.error().message();
  EXPECT_EQ(dtype_name(dataset->dtype()), builder_case["dtype"].get<std::string>());
  const json& documents = builder_case["docs"];
  ASSERT_EQ(dataset->document_count(), static_cast<int64_t>(documents.size()));
  for (size_t d = 0; d < documents.size(); ++d) {
    const auto range = dataset->document(static_cast<int64_t>(d));
    ASSERT_TRUE(range.has_value()) << range.error().message();
    ASSERT_EQ(range->end - range->begin, static_cast<int64_t>(documents[d].size()));
    for (size_t s = 0; s < documents[d].size(); ++s) {
      const int64_t sequence = range->begin + static_cast<int64_t>(s);
      const auto items = dataset->sequence(sequence);
      ASSERT_TRUE(items.has_value()) << items.error().message();
      const std::string expected = packed(dataset->dtype(), documents[d][s]);
      EXPECT_EQ(std::string(reinterpret_cast<const char*>(items->data()), items->size()), expected);
      if (multimodal) {
        EXPECT_EQ(dataset->sequence_modes()[sequence], builder_case["modes"][d][s].get<int8_t>());
      }
    }
  }
}

TEST(MegatronGolden, RebuildsEveryBuilderCaseByteForByte) {
  MEG_REQUIRE_SHARED(std::string(kOracle));
  const TempFolder folder;
  int cases = 0;
  for (const json& builder_case : manifest()["builders"]) {
    if (!builder_case.contains("docs") || builder_case.contains("error")) continue;
    if (builder_case["case"] == kTwoDimensions) continue;
    for (const auto& [name, pair] : pairs_of(builder_case["outputs"])) {
      SCOPED_TRACE(name);
      const std::string prefix = folder.path(fmt::format("case{}", cases));
      ++cases;
      expect_documents(place(folder, pair), builder_case);
      // Codes and item sizes that v2.6's builder writes only on request are only read.
      if (builder_case.contains("note")) continue;
      build(prefix, format_of(pair), builder_case);
      EXPECT_EQ(read_file(prefix + ".bin"), read_file(pair.bin));
      EXPECT_EQ(read_file(prefix + ".idx"), read_file(pair.idx));
    }
  }
  EXPECT_GE(cases, 75);
}

/// The stored pair that a revision wrote for a builder case.
Pair builder_output(const std::string& name, const std::string& revision) {
  for (const json& builder_case : manifest()["builders"]) {
    if (builder_case["case"] != name || builder_case["revision"] != revision) continue;
    return pairs_of(builder_case["outputs"]).begin()->second;
  }
  return {};
}

TEST(MegatronGolden, RefusesItemsOfTwoDimensions) {
  MEG_REQUIRE_SHARED(std::string(kOracle));
  const TempFolder folder;
  const std::string prefix = place(folder, builder_output(kTwoDimensions, "v2.6"));
  for (const Status& status :
       {IndexedDataset::open(prefix).status(), verify_dataset(prefix, {}).status()}) {
    EXPECT_EQ(status.code(), StatusCode::kUnsupported);
    EXPECT_THAT(status.message(), HasSubstr("expected one dimension for each of the "));
  }
}

TEST(MegatronGolden, MergesMultimodalSetsByteForByte) {
  MEG_REQUIRE_SHARED(std::string(kOracle));
  const TempFolder folder;
  for (const char* revision : {"core_v0.5.0", "core_v0.9.0", "core_v0.19.0"}) {
    SCOPED_TRACE(revision);
    const std::vector<std::string> inputs = {
        place(folder, builder_output("mm_int32", revision)),
        place(folder, builder_output("mm_second_int32", revision))};
    const std::string prefix = folder.path(revision);
    const auto summary = merge_datasets(inputs, prefix, {});
    ASSERT_TRUE(summary.has_value()) << summary.error().message();
    const Pair expected = builder_output("mm_merged_int32", revision);
    EXPECT_EQ(read_file(prefix + ".bin"), read_file(expected.bin));
    EXPECT_EQ(read_file(prefix + ".idx"), read_file(expected.idx));
  }
}

/// 6ef5bdc with --append-eod leaves the end-of-document tokens out of the lengths.
bool has_short_lengths(const json& run) {
  const json& argv = run["argv"];
  return run["revision"] == "6ef5bdc" &&
         std::find(argv.begin(), argv.end(), "--append-eod") != argv.end();
}

/// The pairs that preprocess_data.py wrote, by their prefixes.
std::map<std::string, Pair> preprocess_pairs(bool short_lengths) {
  std::map<std::string, Pair> pairs;
  for (const json& run : manifest()["preprocess"]) {
    if (has_short_lengths(run) == short_lengths) pairs.merge(pairs_of(run["outputs"]));
  }
  return pairs;
}

/// The pairs that preprocess_data.py wrote, of both formats, in the order in which a merge took
/// them.
std::vector<std::string> place_inputs(const TempFolder& folder, const json& merge_case) {
  std::map<std::string, Pair> pairs;
  for (const json& run : manifest()["preprocess"]) pairs.merge(pairs_of(run["outputs"]));
  std::vector<std::string> inputs;
  for (const json& input : merge_case["merged_in_this_order"]) {
    inputs.push_back(place(folder, pairs.at(input.get<std::string>())));
  }
  return inputs;
}

const json& merge_case(const std::string& name, const std::string& revision) {
  for (const json& one : manifest()["merge"]) {
    if (one["name"] == name && one["revision"] == revision) return one;
  }
  static const json none;
  ADD_FAILURE() << "no case " << name << " of " << revision;
  return none;
}

TEST(MegatronGolden, MergesLikeMergeDatasets) {
  MEG_REQUIRE_SHARED(std::string(kOracle));
  const TempFolder folder;
  for (const auto& [name, revision] :
       {std::pair("merge3", "core_v0.9.0"), std::pair("merge_fairseq", "6ef5bdc")}) {
    SCOPED_TRACE(name);
    const json& one = merge_case(name, revision);
    const auto summary = merge_datasets(place_inputs(folder, one), folder.path(name), {});
    ASSERT_TRUE(summary.has_value()) << summary.error().message();
    const auto outputs = pairs_of(one["outputs"]);
    EXPECT_EQ(read_file(folder.path(name) + ".bin"), read_file(outputs.begin()->second.bin));
    EXPECT_EQ(read_file(folder.path(name) + ".idx"), read_file(outputs.begin()->second.idx));
  }
}

TEST(MegatronGolden, RefusesToMergeTwoFormats) {
  MEG_REQUIRE_SHARED(std::string(kOracle));
  const TempFolder folder;
  std::vector<std::string> inputs = place_inputs(folder, merge_case("merge_mixed_impl", "6ef5bdc"));
  EXPECT_THAT(merge_datasets(inputs, folder.path("merged"), {}).error().message(),
              HasSubstr("expected TNTIDX like "));
  std::reverse(inputs.begin(), inputs.end());
  EXPECT_THAT(merge_datasets(inputs, folder.path("merged"), {}).error().message(),
              HasSubstr("expected MMIDIDX like "));
  EXPECT_FALSE(std::filesystem::exists(folder.path("merged.bin")));
}

TEST(MegatronGolden, RefusesToMergeShortLengths) {
  MEG_REQUIRE_SHARED(std::string(kOracle));
  const TempFolder folder;
  const std::vector<std::string> inputs = place_inputs(folder, merge_case("merge3", "6ef5bdc"));
  const auto summary = merge_datasets(inputs, folder.path("merged"), {});
  EXPECT_EQ(summary.error().code(), StatusCode::kCorruption);
  EXPECT_THAT(
      summary.error().message(),
      HasSubstr("expected 7438 bytes by the lengths, found 7528: one more item per document, "
                "as Megatron-LM 6ef5bdc wrote"));
  EXPECT_FALSE(std::filesystem::exists(folder.path("merged.bin")));
  EXPECT_TRUE(merge_datasets(inputs, folder.path("taken"), {.take_short_lengths_as_view = true})
                  .has_value());
}

TEST(MegatronGolden, VerifiesWhatMegatronWroteRight) {
  MEG_REQUIRE_SHARED(std::string(kOracle));
  const TempFolder folder;
  int datasets = 0;
  for (const auto& [name, pair] : preprocess_pairs(false)) {
    SCOPED_TRACE(name);
    ++datasets;
    const std::string prefix = place(folder, pair);
    const auto report = verify_dataset(prefix, {});
    ASSERT_TRUE(report.has_value()) << report.error().message();
    EXPECT_TRUE(report->ok()) << report->problems.front().message();
    const auto dataset = IndexedDataset::open(prefix);
    ASSERT_TRUE(dataset.has_value()) << dataset.error().message();
    EXPECT_EQ(dataset->item_count(), report->item_count);
    EXPECT_EQ(dataset->document_count(), report->document_count);
  }
  EXPECT_GE(datasets, 85);
}

TEST(MegatronGolden, VerifiesTheDatasetsOfTheIndexCases) {
  MEG_REQUIRE_SHARED(std::string(kOracle));
  const auto verify = [](const std::string& name) {
    return verify_dataset(test::shared_path(std::string(kOracle) + "/C/data/" + name),
                          {.vocab_size = 50257, .eod = 50256});
  };
  for (const char* name : {"lam", "p0", "p1", "p2", "sent", "stress"}) {
    SCOPED_TRACE(name);
    const auto report = verify(name);
    ASSERT_TRUE(report.has_value()) << report.error().message();
    EXPECT_TRUE(report->ok()) << report->problems.front().message();
  }
  EXPECT_EQ(verify("lam")->document_count, 1500);
  EXPECT_EQ(verify("sent.idx")->sequence_count, 263);
  EXPECT_EQ(verify("sent.bin")->document_count, 50);
  EXPECT_EQ(verify("stress")->sequence_count, 883);
  EXPECT_EQ(verify("stress")->document_count, 884);
}

TEST(MegatronGolden, NamesTheShortLengthsOf6ef5bdc) {
  MEG_REQUIRE_SHARED(std::string(kOracle));
  const TempFolder folder;
  int broken = 0;
  for (const auto& [name, pair] : preprocess_pairs(true)) {
    SCOPED_TRACE(name);
    ++broken;
    const auto report = verify_dataset(place(folder, pair), {});
    ASSERT_TRUE(report.has_value()) << report.error().message();
    ASSERT_FALSE(report->ok());
    EXPECT_EQ(report->problems.back().check, VerifyCheck::kBinSize);
    EXPECT_THAT(report->problems.back().likely_cause, HasSubstr("6ef5bdc"));
  }
  EXPECT_GE(broken, 10);
}

}  // namespace
}  // namespace meg::dataset
