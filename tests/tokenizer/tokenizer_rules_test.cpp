// Tokenizer::identity(): equal for two spellings of one tokenizer, different where ids may differ.

#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "libmeg/tokenizer/files/internal/huggingface/hugging_face_tokenizer.h"
#include "libmeg/tokenizer/registry/open_tokenizer.h"
#include "tests/temp_folder.h"
#include "tests/tokenizer/tiny_model.h"

namespace meg::tokenizer {
namespace {

using Json = nlohmann::json;

/// GPT-2's kind of tokenizer as Hugging Face writes it.
Json gpt2_json() {
  return {{"model",
           {{"type", "BPE"},
            {"unk_token", ""},
            {"vocab", Json::parse(test::vocab_json({"th", "the", "er", "<|endoftext|>"}))},
            {"merges", {"t h", "th e", "e r"}}}},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
          {"post_processor", {{"type", "ByteLevel"}}},
          {"added_tokens", Json::array({Json::object({{"id", 259},
                                                      {"content", "<|endoftext|>"},
                                                      {"special", true},
                                                      {"normalized", true}})})}};
}

std::string identity_of(const Json& file) {
  const auto tokenizer = HuggingFaceTokenizer::parse(file.dump(), "tokenizer.json", {}, {});
  EXPECT_TRUE(tokenizer.has_value()) << tokenizer.status().message();
  return (*tokenizer)->identity().value_or("");
}

TEST(TokenizerIdentity, IsOfTheContentNotOfTheFiles) {
  const test::TempFolder folder;
  TokenizerOptions options;
  options.tokenizer_type = "GPT2BPETokenizer";
  options.vocab_file = folder.path("vocab.json");
  options.merge_file = folder.path("merges.txt");
  test::write_file(options.vocab_file,
                   test::vocab_json({"th", "the", "er", "<|endoftext|>"}) + "\n");
  test::write_file(options.merge_file, "#version: 0.2\nt h\r\nth e\ne r\n");
  const auto tokenizer = open_tokenizer(options);
  ASSERT_TRUE(tokenizer.has_value()) << tokenizer.status().message();
  ASSERT_EQ((*tokenizer)->identity()->size(), 32u);
  EXPECT_EQ((*tokenizer)->identity(), identity_of(gpt2_json()));
  options.version = megatron::newest_megatron_version();
  EXPECT_EQ((*open_tokenizer(options))->identity(), identity_of(gpt2_json()));
}

TEST(TokenizerIdentity, DiffersWhereIdsMay) {
  const std::function<void(Json&)> changes[] = {
      [](Json&) {},
      [](Json& file) {
        file["model"]["merges"] = {"t h", "e r", "th e"};
      },
      [](Json& file) { file["model"]["merges"].erase(2); },
      [](Json& file) { std::swap(file["model"]["vocab"]["th"], file["model"]["vocab"]["er"]); },
      [](Json& file) { file["model"]["ignore_merges"] = true; },
      [](Json& file) { file["model"]["end_of_word_suffix"] = "!"; },
      [](Json& file) { file["model"]["continuing_subword_prefix"] = "!"; },
      [](Json& file) { file["model"]["vocab"].erase("z"); },
      [](Json& file) {
        file["normalizer"] = {{"type", "NFC"}};
      },
      [](Json& file) { file["pre_tokenizer"]["add_prefix_space"] = true; },
      [](Json& file) { file["pre_tokenizer"]["use_regex"] = false; },
      [](Json& file) { file["added_tokens"][0]["lstrip"] = true; },
      [](Json& file) { file["added_tokens"][0]["special"] = false; },
      [](Json& file) {
        file["added_tokens"].push_back({{"id", 260}, {"content", "<x>"}, {"special", true}});
      },
  };
  std::set<std::string> found;
  for (const auto& change : changes) {
    Json file = gpt2_json();
    change(file);
    found.insert(identity_of(file));
  }
  EXPECT_EQ(found.size(), std::size(changes));
}

TEST(TokenizerIdentity, LeavesOutWhatStandsAroundAText) {
  Json file = gpt2_json();
  file["post_processor"] = {{"type", "RobertaProcessing"},
                            {"sep", {"<|endoftext|>", 259}},
                            {"cls", {"<|endoftext|>", 259}}};
  file["decoder"] = {{"type", "ByteLevel"}};
  EXPECT_EQ(identity_of(file), identity_of(gpt2_json()));
}

TEST(TokenizerIdentity, DependsOnThePiecesOfWordModels) {
  const auto unigram = [](double score) {
    return Json{
        {"model",
         {{"type", "Unigram"},
          {"unk_id", 0},
          {"vocab", Json::array({Json::array({"<unk>", 0.0}), Json::array({"a", score})})}}}};
  };
  EXPECT_EQ(identity_of(unigram(-1)), identity_of(unigram(-1)));
  EXPECT_NE(identity_of(unigram(-1)), identity_of(unigram(-2)));
}

TEST(TokenizerIdentity, IsNoneOfNullTokenizer) {
  TokenizerOptions options;
  options.tokenizer_type = "NullTokenizer";
  options.vocab_size = 100;
  EXPECT_EQ((*open_tokenizer(options))->identity(), std::nullopt);
}

}  // namespace
}  // namespace meg::tokenizer
