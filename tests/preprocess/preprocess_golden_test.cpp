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
#include "libmeg/tokenizer/registry/open_tokenizer.h"
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

std::string value_of(const std::vector<std::string>& argv, const std::string& flag) {
  const std::vector<std::string> values = values_of(argv, flag);
  return values.empty() ? "" : values[0];
}

/// Where the manifest says that a file's bytes are kept.
std::string stored_path(const json& file) {
  const json& stored = file.contains("stored") ? file["stored"] : file["path"];
  return test::shared_path(kOracle + stored.get<std::string>());
}

/// A tokenizer's file or folder, as the commands of the manifest name it; a folder is put together
/// in `folder` of the files that the manifest lists.
std::string tokenizer_path(const std::string& path, const test::TempFolder& folder) {
  if (path.starts_with("gpt2/")) return test::shared_path("data/" + path);
  for (const json& file : manifest()["tokenizers"]) {
    const std::string name = file["path"];
    if (name == path) return stored_path(file);
    if (name.starts_with(path + "/")) {
      test::write_file(folder.path(name.substr(path.size() + 1)),
                       test::read_file(stored_path(file)));
    }
  }
  return folder.path();
}

tokenizer::TokenizerOptions tokenizer_options(const json& one, const test::TempFolder& folder) {
  const std::vector<std::string> argv = one["argv"];
  const auto path = [&](const std::string& flag, const std::string& missing) {
    const std::string value = value_of(argv, flag);
    return value.empty() ? missing : tokenizer_path(value, folder);
  };
  tokenizer::TokenizerOptions options;
  options.tokenizer_type = value_of(argv, "--tokenizer-type");
  options.version = *megatron::parse_megatron_version(one["revision"].get<std::string>());
  options.vocab_file = path("--vocab-file", test::shared_path("data/gpt2/vocab.json"));
  options.merge_file = path("--merge-file", test::shared_path("data/gpt2/merges.txt"));
  options.tokenizer_model = path("--tokenizer-model", "");
  if (has(argv, "--vocab-size")) options.vocab_size = std::stoll(value_of(argv, "--vocab-size"));
  options.tiktoken_pattern = value_of(argv, "--tiktoken-pattern");
  if (has(argv, "--tiktoken-num-special-tokens")) {
    options.tiktoken_num_special_tokens =
        std::stoll(value_of(argv, "--tiktoken-num-special-tokens"));
  }
  return options;
}

/// The flags that shape a tokenizer, so that each is opened once.
std::string tokenizer_key(const json& one) {
  const std::vector<std::string> argv = one["argv"];
  std::string key = one["revision"];
  for (const char* flag : {"--tokenizer-type", "--vocab-file", "--merge-file", "--tokenizer-model",
                           "--vocab-size", "--tiktoken-pattern", "--tiktoken-num-special-tokens"}) {
    key += " " + value_of(argv, flag);
  }
  return key;
}

/// The tokenizer of a case; null where it cannot be opened.
const tokenizer::Tokenizer* tokenizer_of(const json& one) {
  static std::map<std::string, std::unique_ptr<tokenizer::Tokenizer>> opened;
  const auto [place, is_new] = opened.try_emplace(tokenizer_key(one));
  if (!is_new) return place->second.get();
  const test::TempFolder folder;
  auto tokenizer = tokenizer::open_tokenizer(tokenizer_options(one, folder));
  if (tokenizer.has_value()) {
    place->second = std::move(*tokenizer);
  } else {
    ADD_FAILURE() << tokenizer.error().message();
  }
  return place->second.get();
}

/// --dataset-impl lazy or cached.
bool is_tntidx(const json& one) {
  const std::string impl = value_of(one["argv"], "--dataset-impl");
  return !impl.empty() && impl != "mmap";
}

/// Since late 2022 preprocess_data.py ends with an error where it should write TNTIDX, and leaves
/// an empty .bin.
bool is_whole(const json& one) { return !is_tntidx(one) || one["revision"] == "v2.6"; }

PreprocessOptions options_of(const json& one) {
  const std::vector<std::string> argv = one["argv"];
  PreprocessOptions options;
  options.inputs = {test::shared_path(kOracle + one["input"].get<std::string>())};
  if (is_tntidx(one)) options.format = dataset::IndexFormat::kTntidx;
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
    paths[file_name(output)] = stored_path(output);
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

/// Returns what was recorded, but for Megatron's faults: the .idx files of 6ef5bdc with
/// --append-eod come from core_v0.9.0, the missing .idx of a first key from v2.6.
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

/// Workers and chunks are put together in one way for all tokenizers: GPT-2's take every way.
bool runs_with(const json& one, int workers) {
  return workers == 1 || has(one["argv"], "GPT2BPETokenizer");
}

class PreprocessGolden : public testing::TestWithParam<std::pair<int, size_t>> {};

TEST_P(PreprocessGolden, WritesMegatronsBytes) {
  MEG_REQUIRE_SHARED(kOracle + "manifest.json");
  MEG_REQUIRE_SHARED("data/gpt2/vocab.json");
  std::map<std::string, int> cases;  // by type of the tokenizer
  for (const json& one : manifest()["preprocess"]) {
    SCOPED_TRACE(one["name"].get<std::string>() + " " + one["revision"].get<std::string>());
    if (!is_whole(one)) continue;
    if (!runs_with(one, GetParam().first)) continue;
    const tokenizer::Tokenizer* const tokenizer = tokenizer_of(one);
    if (tokenizer == nullptr) continue;
    const test::TempFolder folder;
    PreprocessOptions options = options_of(one);
    options.output_prefix = folder.path("out");
    std::tie(options.workers, options.chunk_bytes) = GetParam();
    const auto summary = preprocess(options, *tokenizer, {});
    ASSERT_TRUE(summary.has_value()) << summary.error().message();
    const auto expected = expected_outputs(one);
    EXPECT_EQ(files_in(folder.path()).size(), expected.size());
    for (const auto& [file, path] : expected) {
      EXPECT_TRUE(test::read_file(folder.path(file)) == test::read_file(path)) << file;
    }
    ++cases[is_tntidx(one) ? "TNTIDX" : value_of(one["argv"], "--tokenizer-type")];
  }
  EXPECT_EQ(cases["TNTIDX"], 5);
  EXPECT_GE(cases["GPT2BPETokenizer"], 60);
  if (GetParam().first > 1) return;
  EXPECT_GE(cases["HuggingFaceTokenizer"], 15);
  EXPECT_GE(cases["TikTokenizer"], 4);
  EXPECT_GE(cases["NullTokenizer"], 10);
  EXPECT_GE(cases["GPTSentencePieceTokenizer"], 14);
  EXPECT_GE(cases["SentencePieceTokenizer"], 3);
  EXPECT_GE(cases["Llama2Tokenizer"], 4);
  EXPECT_GE(cases["BertWordPieceLowerCase"], 4);
  EXPECT_GE(cases["BertWordPieceCase"], 2);
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
  const tokenizer::Tokenizer* const tokenizer =
      tokenizer_of(find_case("gpt2_stress_eod", "core_v0.9.0"));
  ASSERT_NE(tokenizer, nullptr);
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
    const auto summary = preprocess(options, *tokenizer, {});
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
