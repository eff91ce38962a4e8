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

#include "libmeg/text/text_padding.h"
#include "libmeg/tokenizer/bpe/internal/gpt2_bpe_tokenizer.h"
#include "tests/shared_data.h"
#include "tests/temp_folder.h"
#include "tests/tokenizer/implementations.h"

namespace meg::tokenizer {
namespace {

using Json = nlohmann::json;
using Sequence = std::vector<uint16_t>;
using Documents = std::vector<std::vector<Sequence>>;

constexpr char kOracle[] = "oracle/datasets/";

struct GoldenCase {
  std::string name, input, key, bin_path, idx_path;
  bool append_eod = false;
  bool special_tokens_in_text = false;
  bool skips_empty_documents = false;
};

std::string oracle_file(const std::string& path) {
  return test::read_file(test::shared_path(kOracle + path));
}

std::string argument(const std::vector<std::string>& argv, const std::string& flag) {
  const auto found = std::find(argv.begin(), argv.end(), flag);
  return found == argv.end() ? "" : *(found + 1);
}

/// Paths of a case's outputs by file name, followed to where the bytes are kept.
std::map<std::string, std::string> outputs_of(const Json& entry) {
  std::map<std::string, std::string> outputs;
  for (const Json& output : entry["outputs"]) {
    const std::string path = output["path"];
    outputs[path.substr(path.rfind('/') + 1)] = output.value("stored", path);
  }
  return outputs;
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

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find_first_of("\r\n", start), text.size());
    if (end > start) lines.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return lines;
}

Sequence encoded(TokenEncoder& encoder, std::string text) {
  const size_t size = text.size();
  text.append(text::kTextPadding, 'x');
  TokenBuffer tokens(DType::kUint16);
  encoder.encode(std::string_view(text).substr(0, size), tokens);
  Sequence ids;
  for (int64_t i = 0; i < tokens.size(); ++i) ids.push_back(static_cast<uint16_t>(tokens.at(i)));
  return ids;
}

Documents encoded_documents(TokenEncoder& encoder, const std::string& input,
                            const std::string& key) {
  Documents documents;
  for (const std::string& line : lines_of(oracle_file(input))) {
    const Json value = Json::parse(line)[key];
    std::vector<std::string> texts;
    if (value.is_array()) {
      texts = value.get<std::vector<std::string>>();
    } else {
      texts.push_back(value);
    }
    std::vector<Sequence> sequences;
    for (const std::string& text : texts) {
      Sequence ids = encoded(encoder, text);
      if (!ids.empty()) sequences.push_back(std::move(ids));
    }
    documents.push_back(std::move(sequences));
  }
  return documents;
}

template <class T>
void append(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

struct DatasetBytes {
  std::string bin, idx;
};

DatasetBytes dataset_of(const Documents& documents, const GoldenCase& golden, int32_t eod) {
  DatasetBytes bytes;
  std::vector<int32_t> lengths;
  std::vector<int64_t> document_indices = {0};
  for (std::vector<Sequence> document : documents) {
    if (golden.skips_empty_documents && document.empty()) continue;
    if (golden.append_eod && !document.empty()) {
      document.back().push_back(static_cast<uint16_t>(eod));
    }
    for (const Sequence& sequence : document) {
      lengths.push_back(static_cast<int32_t>(sequence.size()));
      for (const uint16_t id : sequence) append(bytes.bin, id);
    }
    document_indices.push_back(static_cast<int64_t>(lengths.size()));
  }
  bytes.idx.append("MMIDIDX\0\0", 9);
  append<uint64_t>(bytes.idx, 1);
  append<uint8_t>(bytes.idx, 8);  // uint16
  append<uint64_t>(bytes.idx, lengths.size());
  append<uint64_t>(bytes.idx, document_indices.size());
  for (const int32_t length : lengths) append(bytes.idx, length);
  int64_t pointer = 0;
  for (const int32_t length : lengths) {
    append(bytes.idx, pointer);
    pointer += length * int64_t{2};
  }
  for (const int64_t index : document_indices) append(bytes.idx, index);
  return bytes;
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
    const DatasetBytes found = dataset_of(done[inputs], golden, *(*tokenizer)->eod());
    EXPECT_TRUE(found.bin == oracle_file(golden.bin_path)) << ".bin differs";
    EXPECT_TRUE(found.idx == oracle_file(golden.idx_path)) << ".idx differs";
  }
}

MEG_TEST_ALL_IMPLEMENTATIONS(Gpt2Golden);

}  // namespace
}  // namespace meg::tokenizer
