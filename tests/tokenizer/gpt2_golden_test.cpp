// Every golden dataset that Megatron-LM's preprocess_data made with GPT2BPETokenizer: the texts of
// its input are encoded here and must give its .bin and .idx.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "libmeg/tokenizer/files/internal/gpt2/gpt2_bpe_tokenizer.h"
#include "tests/shared_data.h"
#include "tests/tokenizer/golden_dataset.h"
#include "tests/tokenizer/implementations.h"

namespace meg::tokenizer {
namespace {

using test::DatasetBytes;
using test::Documents;
using test::encoded_documents;
using test::GoldenDatasetRules;
using test::oracle_file;
using test::outputs_of;
using Json = nlohmann::json;

struct GoldenCase {
  std::string name, input, key, bin_path, idx_path;
  bool append_eod = false;
  bool special_tokens_in_text = false;
  bool skips_empty_documents = false;
};

std::string argument(const std::vector<std::string>& argv, const std::string& flag) {
  const auto found = std::find(argv.begin(), argv.end(), flag);
  return found == argv.end() ? "" : *(found + 1);
}

bool concerns_this_test(const Json& entry) {
  const std::vector<std::string> argv = entry["argv"];
  const std::string input = argument(argv, "--input");
  const std::string implementation = argument(argv, "--dataset-impl");
  const bool has_eod = std::count(argv.begin(), argv.end(), "--append-eod") > 0;
  return argument(argv, "--tokenizer-type") == "GPT2BPETokenizer" &&
         input.starts_with("inputs/") &&                          // not --partitions
         input != "inputs/json_quirks.jsonl" &&                   // JSON for Python only
         (implementation.empty() || implementation == "mmap") &&  // not TNTIDX
         !(has_eod && entry["revision"] == "6ef5bdc");            // whose lengths are one short
}

std::vector<GoldenCase> golden_cases() {
  std::vector<GoldenCase> cases;
  const Json manifest = Json::parse(oracle_file("manifest.json"));
  for (const Json& entry : manifest["preprocess"]) {
    if (!concerns_this_test(entry)) continue;
    const std::vector<std::string> argv = entry["argv"];
    for (const auto& [file, path] : outputs_of(entry)) {
      if (!file.ends_with("_document.idx")) continue;
      const std::string stem = file.substr(0, file.size() - 4);
      GoldenCase golden;
      golden.name = entry["name"].get<std::string>() + "/" + entry["revision"].get<std::string>();
      golden.input = argument(argv, "--input");
      golden.key = stem.substr(4, stem.size() - 4 - 9);  // out_KEY_document
      golden.idx_path = path;
      golden.bin_path = outputs_of(entry).at(stem + ".bin");
      golden.append_eod = std::count(argv.begin(), argv.end(), "--append-eod") > 0;
      golden.special_tokens_in_text = golden.name.starts_with("gpt2_hub_");
      golden.skips_empty_documents = entry["revision"] == "v2.6";
      cases.push_back(golden);
    }
  }
  return cases;
}

class Gpt2Golden : public test::ImplementationTest {};

TEST_P(Gpt2Golden, GivesMegatronsBytes) {
  MEG_REQUIRE_SHARED("oracle/datasets/manifest.json");
  MEG_REQUIRE_SHARED("data/gpt2/vocab.json");
  std::map<std::tuple<std::string, std::string, bool>, Documents> done;
  const std::vector<GoldenCase> cases = golden_cases();
  EXPECT_GE(cases.size(), 35u);
  for (const GoldenCase& golden : cases) {
    SCOPED_TRACE(golden.name + " " + golden.key);
    const auto tokenizer = GPT2BPETokenizer::open(
        test::shared_path("data/gpt2/vocab.json"), test::shared_path("data/gpt2/merges.txt"),
        GetParam().options(golden.special_tokens_in_text));
    ASSERT_TRUE(tokenizer) << tokenizer.error().message();
    const std::tuple inputs(golden.input, golden.key, golden.special_tokens_in_text);
    if (done.count(inputs) == 0) {
      const auto encoder = (*tokenizer)->new_encoder(DType::kUint16);
      done[inputs] = encoded_documents(*encoder, golden.input, golden.key);
    }
    GoldenDatasetRules rules;
    if (golden.append_eod) rules.appended_eod = static_cast<uint16_t>(*(*tokenizer)->eod());
    rules.skips_empty_documents = golden.skips_empty_documents;
    const DatasetBytes found = dataset_of(done[inputs], rules);
    EXPECT_TRUE(found.bin == oracle_file(golden.bin_path)) << ".bin differs";
    EXPECT_TRUE(found.idx == oracle_file(golden.idx_path)) << ".idx differs";
  }
}

MEG_TEST_ALL_IMPLEMENTATIONS(Gpt2Golden);

}  // namespace
}  // namespace meg::tokenizer
