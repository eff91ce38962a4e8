// preprocess() against what the real Megatron-LM wrote, byte for byte.

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "libmeg/megatron/megatron_version.h"
#include "libmeg/preprocess/preprocess.h"
#include "libmeg/tokenizer/open_tokenizer.h"
#include "tests/shared_data.h"
#include "tests/temp_folder.h"

namespace meg::preprocess {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::MatchesRegex;

const std::string kOracle = "oracle/datasets/";

/// The faulty revision: --append-eod wrote lengths one short.
constexpr char kShortLengths[] = "6ef5bdc";

const json& manifest() {
  static const json loaded = [] {
    std::ifstream file(test::shared_path(kOracle + "manifest.json"));
    return json::parse(file);
  }();
  return loaded;
}

std::unique_ptr<tokenizer::Tokenizer> open_gpt2(const std::string& revision) {
  tokenizer::TokenizerOptions options;
  options.tokenizer_type = "GPT2BPETokenizer";
  options.vocab_file = test::shared_path("data/gpt2/vocab.json");
  options.merge_file = test::shared_path("data/gpt2/merges.txt");
  options.version = *megatron::parse_megatron_version(revision);
  auto tokenizer = tokenizer::open_tokenizer(options);
  EXPECT_TRUE(tokenizer.has_value()) << tokenizer.error().message();
  return tokenizer.has_value() ? std::move(*tokenizer) : nullptr;
}

/// The tokenizer of a revision; the two there are get opened once.
const tokenizer::Tokenizer& gpt2_of(const std::string& revision) {
  static const auto plain = open_gpt2("core_v0.14.0");
  static const auto with_specials = open_gpt2("core_v0.19.0");
  return megatron::parse_megatron_version(revision)->gpt2_special_tokens_in_text ? *with_specials
                                                                                 : *plain;
}

bool has(const std::vector<std::string>& argv, const std::string& flag) {
  return std::find(argv.begin(), argv.end(), flag) != argv.end();
}

/// The values of a flag, up to the next.
std::vector<std::string> values_of(const std::vector<std::string>& argv, const std::string& flag) {
  auto at = std::find(argv.begin(), argv.end(), flag);
  std::vector<std::string> values;
  while (at != argv.end() && ++at != argv.end() && !at->starts_with("--")) values.push_back(*at);
  return values;
}

bool is_ours(const json& one) {
  const std::vector<std::string> argv = one["argv"];
  const auto impl = values_of(argv, "--dataset-impl");
  return has(argv, "GPT2BPETokenizer") && (impl.empty() || impl[0] == "mmap");
}

PreprocessOptions options_of(const json& one) {
  const std::vector<std::string> argv = one["argv"];
  PreprocessOptions options;
  options.inputs = {test::shared_path(kOracle + one["input"].get<std::string>())};
  options.append_eod = has(argv, "--append-eod");
  options.skip_empty_documents =
      megatron::parse_megatron_version(one["revision"].get<std::string>())->skip_empty_documents;
  if (has(argv, "--json-keys")) options.json_keys = values_of(argv, "--json-keys");
  if (has(argv, "--partitions")) options.partitions = std::stoi(values_of(argv, "--partitions")[0]);
  if (has(argv, "--keep-sequential-samples")) options.dealing = Dealing::kBlocks;
  return options;
}

std::string file_name(const json& output) {
  return std::filesystem::path(output["path"].get<std::string>()).filename();
}

/// A case's outputs by file name: paths to the bytes they should have.
std::map<std::string, std::string> recorded_outputs(const json& one) {
  std::map<std::string, std::string> paths;
  for (const json& output : one["outputs"]) {
    const json& stored = output.contains("stored") ? output["stored"] : output["path"];
    paths[file_name(output)] = test::shared_path(kOracle + stored.get<std::string>());
  }
  return paths;
}

const json& find_case(const std::string& name, const std::string& revision) {
  for (const json& one : manifest()["preprocess"]) {
    if (one["name"] == name && one["revision"] == revision) return one;
  }
  static const json none;
  ADD_FAILURE() << "no case " << name << " of " << revision;
  return none;
}

/// As recorded, but for Megatron's faults: the .idx files of 6ef5bdc with --append-eod come from
/// core_v0.9.0, the missing .idx of a first key from v2.6.
std::map<std::string, std::string> expected_outputs(const json& one) {
  const std::string name = one["name"];
  std::map<std::string, std::string> paths = recorded_outputs(one);
  if (one["revision"] == kShortLengths && has(one["argv"], "--append-eod")) {
    for (const auto& [file, path] : recorded_outputs(find_case(name, "core_v0.9.0"))) {
      if (file.ends_with(".idx")) paths[file] = path;
    }
  }
  if (paths.contains("out_title_document.bin") && !paths.contains("out_title_document.idx")) {
    paths["out_title_document.idx"] =
        recorded_outputs(find_case(name, "v2.6"))["out_title_document.idx"];
  }
  return paths;
}

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename());
  }
  return names;
}

class PreprocessGolden : public testing::TestWithParam<std::pair<int, size_t>> {};

TEST_P(PreprocessGolden, WritesMegatronsBytes) {
  MEG_REQUIRE_SHARED(kOracle + "manifest.json");
  MEG_REQUIRE_SHARED("data/gpt2/vocab.json");
  int cases = 0;
  for (const json& one : manifest()["preprocess"]) {
    if (!is_ours(one)) continue;
    SCOPED_TRACE(one["name"].get<std::string>() + " " + one["revision"].get<std::string>());
    const test::TempFolder folder;
    PreprocessOptions options = options_of(one);
    options.output_prefix = folder.path("out");
    std::tie(options.workers, options.chunk_bytes) = GetParam();
    const auto summary = preprocess(options, gpt2_of(one["revision"]), {});
    ASSERT_TRUE(summary.has_value()) << summary.error().message();
    const auto expected = expected_outputs(one);
    EXPECT_EQ(files_in(folder.path()).size(), expected.size());
    for (const auto& [file, path] : expected) {
      EXPECT_TRUE(test::read_file(folder.path(file)) == test::read_file(path)) << file;
    }
    ++cases;
  }
  EXPECT_GE(cases, 60);
}

INSTANTIATE_TEST_SUITE_P(WorkersAndChunks, PreprocessGolden,
                         testing::Values(std::pair<int, size_t>(1, size_t{1} << 20),
                                         std::pair<int, size_t>(2, 10'000),
                                         std::pair<int, size_t>(5, 300),
                                         std::pair<int, size_t>(3, 1)));

/// What the manifest's bad_input says, except that blank lines are taken.
bool must_fail(const json& bad) {
  const std::string name = bad["name"];
  return name != "bad_empty_file" && name != "bad_blank_line" && name != "bad_trailing_blank";
}

TEST(PreprocessBadInput, FailsWithFileLineAndByteAndLeavesNothing) {
  MEG_REQUIRE_SHARED(kOracle + "manifest.json");
  int failed = 0;
  for (const json& bad : manifest()["bad_input"]) {
    if (bad["revision"] != "core_v0.9.0") continue;
    SCOPED_TRACE(bad["name"].get<std::string>());
    const test::TempFolder folder;
    PreprocessOptions options;
    options.inputs = {test::shared_path(kOracle + bad["input"].get<std::string>())};
    options.output_prefix = folder.path("out");
    options.workers = 2;
    options.chunk_bytes = 10;
    const auto summary = preprocess(options, gpt2_of("core_v0.9.0"), {});
    EXPECT_EQ(summary.has_value(), !must_fail(bad));
    if (summary.has_value()) {
      EXPECT_EQ(files_in(folder.path()).size(), 2);
      continue;
    }
    ++failed;
    EXPECT_THAT(summary.error().message(), HasSubstr(options.inputs[0] + ": line "));
    EXPECT_THAT(summary.error().message(), MatchesRegex(".*: line [0-9]+, byte [0-9]+: .*"));
    EXPECT_TRUE(files_in(folder.path()).empty());
  }
  EXPECT_EQ(failed, 17);
}

}  // namespace
}  // namespace meg::preprocess
