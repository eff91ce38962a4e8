// Every golden dataset that the packages `tokenizers` and `tiktoken` gave the ids of (folder T of
// the dataset oracle): its texts are encoded here and must give its .bin and .idx.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "libmeg/tokenizer/files/internal/huggingface/hugging_face_tokenizer.h"
#include "libmeg/tokenizer/files/internal/tiktoken/rank_file.h"
#include "libmeg/tokenizer/files/internal/tiktoken/tik_tokenizer.h"
#include "tests/shared_data.h"
#include "tests/tokenizer/golden_dataset.h"
#include "tests/tokenizer/implementations.h"

namespace meg::tokenizer {
namespace {

using Json = nlohmann::json;
using Opened = Result<std::unique_ptr<Tokenizer>>;

bool is_reference(const test::Implementation& chosen) {
  return chosen.implementation == GPT2BPETokenizer::Implementation::kReference;
}

Opened open_hugging_face(const Json& entry, const test::Implementation& chosen) {
  HuggingFaceTokenizer::Options options;
  options.include_special_tokens = false;
  options.reference = is_reference(chosen);
  options.instruction_set = chosen.instruction_set;
  const std::string name = entry["tokenizer"];
  MEG_ASSIGN_OR_RETURN(
      std::unique_ptr<Tokenizer> made,
      HuggingFaceTokenizer::parse(test::oracle_file(name), name, TokenizerConfig(), options));
  return made;
}

/// tiktoken's special tokens have chosen ids, TikTokenizer's are in front of the ranks.
Opened open_tiktoken(const Json& entry, const test::Implementation& chosen) {
  const std::string pattern = entry["pattern"];
  TikTokenizer::Options options;
  options.reference = is_reference(chosen);
  options.pattern = pattern;
  options.specials_in_text = true;
  const Json specials = entry.value("special_tokens", Json::object());
  for (const auto& special : specials.items()) options.special_tokens.push_back(special.key());
  const std::string name = entry["tokenizer"];
  MEG_ASSIGN_OR_RETURN(const auto tokens, read_rank_file(test::oracle_file(name), name));
  MEG_ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> made,
                       TikTokenizer::create(tokens, name, options));
  return made;
}

/// Ids of open_tiktoken to those of tiktoken.
void renumber(test::Documents& documents, const Json& entry) {
  std::vector<uint16_t> specials;
  const Json given = entry.value("special_tokens", Json::object());
  for (const auto& special : given.items()) specials.push_back(special.value());
  for (auto& document : documents) {
    for (auto& sequence : document) {
      for (uint16_t& id : sequence) {
        id = id < specials.size() ? specials[id] : static_cast<uint16_t>(id - specials.size());
      }
    }
  }
}

class PackageGolden : public test::ImplementationTest {};

TEST_P(PackageGolden, GivesThePackagesIds) {
  MEG_REQUIRE_SHARED("oracle/datasets/manifest.json");
  const Json manifest = Json::parse(test::oracle_file("manifest.json"));
  EXPECT_GE(manifest["tokenize"].size(), 13U);
  for (const Json& entry : manifest["tokenize"]) {
    const std::string name = entry["case"];
    SCOPED_TRACE(name);
    const bool tiktoken = entry["library"].get<std::string>().starts_with("tiktoken");
    const Opened tokenizer =
        tiktoken ? open_tiktoken(entry, GetParam()) : open_hugging_face(entry, GetParam());
    ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().message();
    const auto encoder = (*tokenizer)->new_encoder(DType::kUint16);
    test::Documents documents = test::encoded_documents(*encoder, entry["input"], "text");
    renumber(documents, entry);
    const test::DatasetBytes found = test::dataset_of(documents, {});
    const auto outputs = test::outputs_of(entry);
    EXPECT_TRUE(found.bin == test::oracle_file(outputs.at(name + ".bin"))) << ".bin differs";
    EXPECT_TRUE(found.idx == test::oracle_file(outputs.at(name + ".idx"))) << ".idx differs";
  }
}

MEG_TEST_ALL_IMPLEMENTATIONS(PackageGolden);

}  // namespace
}  // namespace meg::tokenizer
