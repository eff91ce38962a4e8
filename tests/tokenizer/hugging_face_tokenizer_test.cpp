// What a tokenizer.json and the files beside it may not be, each with its message, and what the
// files beside it decide. That ids are right is held by the packages: compare_with_packages.py.

#include "libmeg/tokenizer/files/internal/huggingface/hugging_face_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "libmeg/tokenizer/files/internal/huggingface/hub_cache.h"
#include "libmeg/tokenizer/steps/internal/pre_tokenizer.h"
#include "tests/temp_folder.h"
#include "tests/tokenizer/tiny_model.h"

namespace meg::tokenizer {
namespace {

using Json = nlohmann::json;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;

/// The 256 bytes, "th" and "the" (256, 257), <s> and </s> (258, 259).
Json tiny() {
  Json file;
  file["model"] = {{"type", "BPE"},
                   {"vocab", Json::parse(test::vocab_json({"th", "the"}))},
                   {"merges", {"t h", Json::array({"th", "e"})}}};
  file["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
  file["decoder"] = {{"type", "ByteLevel"}};
  file["added_tokens"] = {{{"id", 258}, {"content", "<s>"}, {"special", true}},
                          {{"id", 259}, {"content", "</s>"}, {"special", true}}};
  return file;
}

Result<std::unique_ptr<HuggingFaceTokenizer>> open(const Json& file, const Json& config = {}) {
  const test::TempFolder folder;
  test::write_file(folder.path("tokenizer.json"), file.dump());
  if (!config.is_null()) test::write_file(folder.path("tokenizer_config.json"), config.dump());
  return HuggingFaceTokenizer::open(folder.path(), {});
}

std::string error_of(const Json& file, const Json& config = {}) {
  return open(file, config).status().message();
}

TEST(HuggingFaceTokenizer, ReadsTheFilesBeside) {
  const auto tokenizer = open(tiny(), {{"bos_token", "<s>"},
                                       {"eos_token", {{"content", "</s>"}}},
                                       {"pad_token", "<pad>"},
                                       {"image_token", "<image>"}});
  ASSERT_TRUE(tokenizer) << tokenizer.error().message();
  EXPECT_EQ((*tokenizer)->eod(), 259);
  EXPECT_EQ((*tokenizer)->bos(), 258);
  EXPECT_EQ((*tokenizer)->pad(), 260);  // new, after all others
  EXPECT_EQ((*tokenizer)->vocab_size(), 262);
  EXPECT_EQ((*tokenizer)->max_id(), 261);
  EXPECT_EQ((*tokenizer)->token_bytes(257), "the");
  EXPECT_EQ((*tokenizer)->token_bytes(262), std::nullopt);
  const auto ids = (*tokenizer)->encode("the</s><image>");
  EXPECT_THAT(*ids, ElementsAre(257, 259, 261));
  EXPECT_EQ(*(*tokenizer)->decode(*ids), "the</s><image>");
  EXPECT_EQ((*tokenizer)->decode(std::vector<int32_t>{300}).status().code(),
            StatusCode::kOutOfRange);
}

TEST(HuggingFaceTokenizer, TakesTokensAroundATextFromThePostProcessorAlone) {
  const auto tokenizer = open(tiny(), {{"bos_token", "<s>"}, {"add_bos_token", true}});
  ASSERT_TRUE(tokenizer) << tokenizer.error().message();
  EXPECT_THAT(*(*tokenizer)->encode("the"), ElementsAre(257));
  EXPECT_THAT((*tokenizer)->warnings(), ElementsAre(HasSubstr("not those of add_bos_token")));
  Json file = tiny();
  file["post_processor"] = {
      {"type", "BertProcessing"}, {"cls", {"<s>", 258}}, {"sep", {"</s>", 259}}};
  const Json config = {{"add_bos_token", true}, {"add_eos_token", true}};
  EXPECT_THAT((*open(file, config))->warnings(), testing::IsEmpty());
  EXPECT_THAT(*(*open(file, {{"add_bos_token", false}}))->encode("the"),
              ElementsAre(258, 257, 259));
}

TEST(HuggingFaceTokenizer, TakesNamedTokensFromTheMapWhereTheConfigListsNoAddedTokens) {
  const test::TempFolder folder;
  test::write_file(folder.path("tokenizer.json"), tiny().dump());
  test::write_file(folder.path("special_tokens_map.json"), R"({"eos_token": "<s>"})");
  const auto eod = [&](const Json& config) {
    test::write_file(folder.path("tokenizer_config.json"), config.dump());
    return (*HuggingFaceTokenizer::open(folder.path(), {}))->eod();
  };
  Json config = {{"eos_token", "</s>"}};
  EXPECT_EQ(eod(config), 258);
  config["added_tokens_decoder"] = {{"258", {{"content", "<s>"}, {"special", true}}}};
  EXPECT_EQ(eod(config), 259);
}

TEST(HuggingFaceTokenizer, TakesTheListOfExtraTokensThatTransformersTakes) {
  const test::TempFolder folder;
  test::write_file(folder.path("tokenizer.json"), tiny().dump());
  test::write_file(folder.path("special_tokens_map.json"),
                   R"({"additional_special_tokens": ["<m>", "<n>"]})");
  const auto added = [&](const Json& config) {
    test::write_file(folder.path("tokenizer_config.json"), config.dump());
    return (*HuggingFaceTokenizer::open(folder.path(), {}))->vocab_size() - 260;
  };
  EXPECT_EQ(added(Json::object()), 2);
  EXPECT_EQ(added({{"additional_special_tokens", nullptr}}), 0);
  EXPECT_EQ(added({{"extra_special_tokens", Json::array()}}), 0);
  EXPECT_EQ(added({{"extra_special_tokens", {{"image_token", "<i>"}}}}), 3);
  EXPECT_EQ(added({{"additional_special_tokens", {"<a>"}}}), 1);
  EXPECT_EQ(added({{"additional_special_tokens", {"<a>", "<b>", "<c>"}},
                   {"extra_special_tokens", {"<x>"}}}),
            1);
}

TEST(HuggingFaceTokenizer, WarnsOfSpacesThatOlderClassesClean) {
  const auto warnings = [](const Json& config, bool core) {
    const test::TempFolder folder;
    test::write_file(folder.path("tokenizer.json"), tiny().dump());
    test::write_file(folder.path("tokenizer_config.json"), config.dump());
    return (*HuggingFaceTokenizer::open(folder.path(), {.core = core}))->warnings();
  };
  Json config = {{"clean_up_tokenization_spaces", true}};
  EXPECT_THAT(warnings(config, false), testing::IsEmpty());  // BPE
  config["clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output"] = true;
  EXPECT_THAT(warnings(config, false), ElementsAre(HasSubstr("keep the spaces")));
  EXPECT_THAT(warnings(config, true), testing::IsEmpty());
}

TEST(HuggingFaceTokenizer, CutsByTheFixedPatternOfLargeOldMistralModels) {
  // Words by GPT-2's pattern, which knows a contraction in the text, and by Mistral's.
  const auto by_file = ElementsAre('\'', 't', 'h', 'e');
  const auto fixed = ElementsAre('\'', 257);
  const auto ids = [](const Json& file, const Json& config, const Json& model) {
    const test::TempFolder folder;
    test::write_file(folder.path("tokenizer.json"), file.dump());
    test::write_file(folder.path("tokenizer_config.json"), config.dump());
    if (!model.is_null()) test::write_file(folder.path("config.json"), model.dump());
    const auto tokenizer = HuggingFaceTokenizer::open(folder.path(), {});
    EXPECT_TRUE(tokenizer) << tokenizer.error().message();
    return *(*tokenizer)->encode("'the");
  };
  Json large = tiny();
  large.erase("added_tokens");
  const Json gpt2 = large["pre_tokenizer"];
  Json bytes = gpt2;
  bytes["use_regex"] = false;
  const Json split = {
      {"type", "Split"}, {"pattern", {{"Regex", kGpt2Pattern}}}, {"behavior", "Isolated"}};
  large["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {split, bytes}}};
  for (int id = 258; id <= 100000; ++id) large["model"]["vocab"][fmt::format("x{}", id)] = id;
  Json exact = large;
  exact["model"]["vocab"].erase("x100000");
  const Json fix = {{"fix_mistral_regex", true}};
  const Json old = {{"model_type", "mistral"}, {"transformers_version", "4.57.1"}};
  EXPECT_THAT(ids(large, fix, old), fixed);
  EXPECT_THAT(ids(large, fix, Json::object()), fixed);
  EXPECT_THAT(ids(large, fix, {{"model_type", "pixtral"}, {"transformers_version", ""}}), fixed);
  EXPECT_THAT(ids(large, fix, {{"transformers_version", "5.0.0.dev0"}}), fixed);
  EXPECT_THAT(ids(large, fix, {{"transformers_version", "5.0.0rc2"}}), fixed);
  EXPECT_THAT(ids(large, fix, {{"transformers_version", "5.0.0"}}), by_file);
  EXPECT_THAT(ids(large, fix, {{"transformers_version", "5.0.1rc2"}}), by_file);
  EXPECT_THAT(ids(large, fix, {{"transformers_version", "5.2.0.dev0"}}), by_file);
  EXPECT_THAT(ids(large, fix, {{"model_type", "llama"}, {"transformers_version", "4"}}), by_file);
  EXPECT_THAT(ids(large, fix, nullptr), by_file);
  EXPECT_THAT(ids(large, {{"fix_mistral_regex", false}}, old), by_file);
  EXPECT_THAT(ids(exact, fix, old), by_file);
  large["pre_tokenizer"] = gpt2;
  EXPECT_THAT(ids(large, fix, old), by_file);  // which cuts the words of Mistral's further
  large["pre_tokenizer"] = bytes;
  EXPECT_THAT(ids(large, fix, old), fixed);
}

TEST(HuggingFaceTokenizer, AddsThePadTokenOfThePadding) {
  Json file = tiny();
  file["padding"] = {{"pad_token", "the"}, {"pad_id", 0}};
  EXPECT_EQ((*open(file))->pad(), 257);
  file["padding"]["pad_token"] = "<pad>";
  EXPECT_THAT(*(*open(file))->encode("a<pad>"), ElementsAre(97, 260));
  EXPECT_EQ((*open(file, {{"mask_token", "<mask>"}}))->pad(), 260);
  EXPECT_EQ((*open(file, {{"pad_token", "</s>"}}))->pad(), 259);
  EXPECT_EQ((*open(file, {{"pad_token", "</s>"}}))->vocab_size(), 260);
  EXPECT_EQ((*open(file, {{"pad_token", nullptr}}))->pad(), std::nullopt);
}

TEST(HuggingFaceTokenizer, TakesATokenOfSeveralNamesAsTheLastOneDescribesIt) {
  const Json alone = {{"content", "<x>"}, {"single_word", true}};
  EXPECT_THAT(*(*open(tiny(), {{"eos_token", alone}, {"pad_token", "<x>"}}))->encode("a<x>"),
              ElementsAre(97, 260));
  EXPECT_THAT((*open(tiny(), {{"eos_token", "<x>"}, {"pad_token", alone}}))->encode("a<x>")->size(),
              4);
}

TEST(HuggingFaceTokenizer, ReadsAModelMaxLengthThatNoIntegerHolds) {
  const test::TempFolder folder;
  test::write_file(folder.path("tokenizer.json"), tiny().dump());
  test::write_file(folder.path("tokenizer_config.json"),
                   R"({"eos_token": "</s>", "model_max_length": 1000000000000000019884624838656,
                       "note": "\"1000000000000000019884624838656,", "z": [99999999999999999999]})");
  const auto tokenizer = HuggingFaceTokenizer::open(folder.path(), {});
  ASSERT_TRUE(tokenizer) << tokenizer.error().message();
  EXPECT_EQ((*tokenizer)->eod(), 259);
}

TEST(HuggingFaceTokenizer, TakesSepAndClsWhereCoreDoes) {
  const Json config = {{"sep_token", "</s>"}, {"cls_token", "<s>"}};
  const auto plain = open(tiny(), config);
  EXPECT_EQ((*plain)->eod(), std::nullopt);
  HuggingFaceTokenizer::Options options;
  options.core = true;
  const test::TempFolder folder;
  test::write_file(folder.path("tokenizer.json"), tiny().dump());
  test::write_file(folder.path("tokenizer_config.json"), config.dump());
  const auto tokenizer = HuggingFaceTokenizer::open(folder.path(), options);
  EXPECT_EQ((*tokenizer)->eod(), 259);
  EXPECT_EQ((*tokenizer)->bos(), 258);
}

TEST(HuggingFaceTokenizer, NamesPartsThatAreNotSupported) {
  struct Case {
    const char* path;
    Json value;
    const char* message;
  };

  const Case cases[] = {
      {"/model/type", "Words", "tokenizer.json.model: Words is not supported"},
      {"/model/type", "Unigram", "tokenizer.json.model: Unigram after ByteLevel is not supported"},
      {"/model/dropout", 0.1, ".model.dropout: 0.1 is not supported"},
      {"/model/new_idea", true, ".model.new_idea: \"true\" is not supported"},
      {"/model/new\nidea", true, ".model.\"new\\nidea\": \"true\" is not supported"},
      {"/model/type", "a\nb", "tokenizer.json.model: \"a\\nb\" is not supported"},
      {"/normalizer", {{"type", "Other"}}, ".normalizer: Other is not supported"},
      {"/pre_tokenizer", {{"type", "Other"}}, "Other is not supported"},
      {"/pre_tokenizer",
       {{"type", "Split"}, {"pattern", {{"Regex", "\\X+"}}}, {"behavior", "Isolated"}},
       "\\X in a pattern is not supported"},
      {"/normalizer",
       {{"type", "Replace"}, {"pattern", {{"Regex", "\\X+"}}}, {"content", "0"}},
       ".pattern.Regex: \\X in a pattern is not supported"},
      {"/pre_tokenizer",
       {{"type", "Split"}, {"pattern", {{"Regex", "[[:upper:]\\s]"}}}, {"behavior", "Isolated"}},
       "[:upper:] within brackets in a pattern is not supported"},
      {"/pre_tokenizer",
       {{"type", "Split"}, {"pattern", {{"Regex", "[^]\\s]"}}}, {"behavior", "Isolated"}},
       "] at the beginning of brackets in a pattern is not supported"},
      {"/pre_tokenizer",
       {{"type", "Split"}, {"pattern", {{"Regex", "[a-z&&]"}}}, {"behavior", "Isolated"}},
       "&& without a class at both sides in a pattern is not supported"},
      {"/pre_tokenizer",
       {{"type", "Split"}, {"pattern", {{"Regex", "[a[b]"}}}, {"behavior", "Isolated"}},
       "[ without ] in a pattern is not supported"},
      {"/pre_tokenizer",
       {{"type", "Split"}, {"pattern", {{"Regex", "[[b]a-\\p{L}]"}}}, {"behavior", "Isolated"}},
       "- in front of a class within brackets in a pattern is not supported"},
      {"/pre_tokenizer",
       {{"type", "Split"}, {"pattern", {{"Regex", "[[b]z-a]"}}}, {"behavior", "Isolated"}},
       "a range that ends before it begins in a pattern is not supported"},
      {"/pre_tokenizer",
       {{"type", "Split"}, {"pattern", {{"Regex", "[[b]\\X]"}}}, {"behavior", "Isolated"}},
       "\"\\\\X\" within nested brackets in a pattern is not supported"},
      {"/pre_tokenizer",
       {{"type", "Split"}, {"pattern", {{"Regex", "[[b]\\p{Emoji}]"}}}, {"behavior", "Isolated"}},
       "the property \"\\\\p{Emoji}\" in a pattern is not supported"},
      {"/pre_tokenizer",
       {{"type", "Split"}, {"pattern", {{"Regex", "[[b]\\xe9]"}}}, {"behavior", "Isolated"}},
       "\"\\\\xe9\" in a pattern is not supported"},
      {"/pre_tokenizer",
       {{"type", "Split"}, {"pattern", {{"Regex", "(?i:[[b]a])"}}}, {"behavior", "Isolated"}},
       "\\x under (?i) in a pattern is not supported"},
      {"/pre_tokenizer",
       {{"type", "Sequence"},
        {"pretokenizers",
         {{{"type", "ByteLevel"}, {"add_prefix_space", true}}, {{"type", "Digits"}}}}},
       "Digits after ByteLevel with add_prefix_space is not supported"},
      {"/pre_tokenizer",
       {{"type", "Sequence"},
        {"pretokenizers",
         {{{"type", "ByteLevel"}, {"add_prefix_space", false}}, {{"type", "ByteLevel"}}}}},
       "ByteLevel after ByteLevel is not supported"},
      {"/pre_tokenizer",
       {{"type", "Sequence"},
        {"pretokenizers", {{{"type", "Metaspace"}}, {{"type", "ByteLevel"}}}}},
       "ByteLevel after Metaspace is not supported"},
      {"/decoder",
       {{"type", "BPEDecoder"}, {"suffix", ""}},
       ".decoder: an empty suffix is not supported"},
      {"/pre_tokenizer",
       {{"type", "Split"}, {"pattern", {{"Regex", "(a"}}}, {"behavior", "Isolated"}},
       "pattern \"(a\": missing closing parenthesis"},
      {"/pre_tokenizer",
       {{"type", "Metaspace"}, {"replacement", "__"}},
       ".pre_tokenizer: a replacement that is not one character is not supported"},
      {"/decoder",
       {{"type", "Metaspace"}, {"replacement", ""}},
       ".decoder: a replacement that is not one character is not supported"},
      {"/decoder", {{"type", "CTC"}}, ".decoder: CTC is not supported"},
      {"/post_processor", {{"type", "Other"}}, ".post_processor: Other is not supported"},
  };
  for (const Case& one : cases) {
    Json file = tiny();
    file[Json::json_pointer(one.path)] = one.value;
    EXPECT_EQ(open(file).status().code(), StatusCode::kUnsupported) << one.path;
    EXPECT_THAT(error_of(file), HasSubstr(one.message));
  }
}

TEST(HuggingFaceTokenizer, BoundsNestedBrackets) {
  Json file = tiny();
  const std::string nested = std::string(100'000, '[') + "a" + std::string(100'000, ']');
  file["pre_tokenizer"] = {
      {"type", "Split"}, {"pattern", {{"Regex", nested}}}, {"behavior", "Isolated"}};
  EXPECT_THAT(
      error_of(file),
      HasSubstr(".pre_tokenizer: more than 64 nested brackets in a pattern is not supported"));
}

TEST(HuggingFaceTokenizer, WarnsOfAClassWithPartsOfItsOwn) {
  const auto warnings = [](const Json& file, const std::string& name) {
    const auto tokenizer = open(file, {{"tokenizer_class", name}});
    EXPECT_TRUE(tokenizer) << tokenizer.status().message();
    return tokenizer ? (*tokenizer)->warnings() : std::vector<std::string>();
  };
  for (const char* const same : {"GPT2Tokenizer", "GPT2TokenizerFast", "PreTrainedTokenizerFast",
                                 "LlamaTokenizerFast", "SomethingNew"}) {
    EXPECT_THAT(warnings(tiny(), same), testing::IsEmpty()) << same;
  }
  EXPECT_THAT(
      warnings(tiny(), "Qwen2TokenizerFast"),
      ElementsAre(HasSubstr("tokenizer.json: normalizer and pre-tokenizer are those of this "
                            "file, as in transformers 4; transformers 5 has its own for "
                            "tokenizer_class Qwen2TokenizerFast")));
  Json normalized = tiny();
  normalized["normalizer"] = {{"type", "NFC"}};
  EXPECT_THAT(warnings(normalized, "GPTNeoXTokenizer"), testing::IsEmpty());
  EXPECT_THAT(warnings(normalized, "GPT2Tokenizer"), testing::SizeIs(1));
}

TEST(HuggingFaceTokenizer, TakesTheClassOfTheModelWhereTheConfigHasNone) {
  const auto warnings = [](const Json& config, const std::string& model) {
    const test::TempFolder folder;
    test::write_file(folder.path("tokenizer.json"), tiny().dump());
    if (!config.is_null()) test::write_file(folder.path("tokenizer_config.json"), config.dump());
    test::write_file(folder.path("config.json"), model);
    return (*HuggingFaceTokenizer::open(folder.path(), {}))->warnings();
  };
  const auto of_qwen2 = ElementsAre(HasSubstr("tokenizer_class Qwen2Tokenizer,"));
  EXPECT_THAT(warnings(nullptr, R"({"model_type": "qwen3"})"), of_qwen2);
  EXPECT_THAT(warnings({{"eos_token", "</s>"}},
                       R"({"model_type": "qwen2", "limit": [-Infinity, NaN, Infinity]})"),
              of_qwen2);
  const Json as_it_is = {{"tokenizer_class", "PreTrainedTokenizerFast"}};
  EXPECT_THAT(warnings(as_it_is, R"({"model_type": "qwen3"})"), testing::IsEmpty());
  EXPECT_THAT(warnings(as_it_is, R"({"model_type": "qwen2"})"), of_qwen2);  // known to be wrong
  EXPECT_THAT(warnings({{"tokenizer_class", "Qwen2Tokenizer"}}, R"({"model_type": "mistral"})"),
              testing::IsEmpty());
  EXPECT_THAT(warnings(nullptr, R"({"model_type": "qwen3", "tokenizer_class": "GPT2Tokenizer"})"),
              testing::IsEmpty());
  EXPECT_THAT(warnings(nullptr, R"({"model_type": "llama"})"), testing::IsEmpty());
}

TEST(HuggingFaceTokenizer, HasTheTokensThatItsClassNamesByDefault) {
  const auto gpt2 = open(tiny(), {{"tokenizer_class", "GPT2Tokenizer"}});
  EXPECT_EQ((*gpt2)->eod(), 260);
  EXPECT_EQ((*gpt2)->bos(), 260);
  EXPECT_EQ((*gpt2)->pad(), std::nullopt);
  EXPECT_THAT(*(*gpt2)->encode("the<|endoftext|>"), ElementsAre(257, 260));
  const auto named =
      open(tiny(),
           {{"tokenizer_class", "GPT2Tokenizer"}, {"eos_token", "</s>"}, {"bos_token", nullptr}});
  EXPECT_EQ((*named)->eod(), 259);
  EXPECT_EQ((*named)->bos(), std::nullopt);
  // One with bytes is Llama-3's, which transformers takes as it is.
  const auto llama3 = open(tiny(), {{"tokenizer_class", "LlamaTokenizer"}});
  EXPECT_EQ((*llama3)->eod(), std::nullopt);
  EXPECT_EQ((*llama3)->vocab_size(), 260);
}

TEST(HuggingFaceTokenizer, AddsTheEndOfDocumentsForSepAsCoreDoes) {
  const test::TempFolder folder;
  test::write_file(folder.path("tokenizer.json"), tiny().dump());
  const auto ids = [&](const Json& config, bool core) {
    test::write_file(folder.path("tokenizer_config.json"), config.dump());
    return *(*HuggingFaceTokenizer::open(folder.path(), {.core = core}))->encode("a  <x>  b");
  };
  const Json stripped = {{"content", "<x>"}, {"lstrip", true}, {"rstrip", true}};
  const auto with_spaces = ElementsAre('a', ' ', ' ', 260, ' ', ' ', 'b');
  for (const char* const name : {"eos_token", "sep_token", "bos_token", "cls_token"}) {
    EXPECT_THAT(ids({{name, stripped}}, true), with_spaces) << name;
    EXPECT_THAT(ids({{name, stripped}}, false), ElementsAre('a', 260, 'b')) << name;
  }
  EXPECT_THAT(ids({{"eos_token", stripped}, {"sep_token", stripped}}, true),
              ElementsAre('a', 260, 'b'));
}

TEST(HuggingFaceTokenizer, WarnsOfTokensThatCoreLooksUpOnceMore) {
  const auto warnings = [](const Json& file, const Json& config, bool include_special_tokens) {
    const test::TempFolder folder;
    test::write_file(folder.path("tokenizer.json"), file.dump());
    test::write_file(folder.path("tokenizer_config.json"), config.dump());
    const auto tokenizer = HuggingFaceTokenizer::open(
        folder.path(), {.include_special_tokens = include_special_tokens, .core = true});
    EXPECT_TRUE(tokenizer) << tokenizer.error().message();
    return (*tokenizer)->warnings();
  };
  const Json stripped = {{"mask_token", {{"content", "<m>"}, {"lstrip", true}}}};
  EXPECT_THAT(warnings(tiny(), stripped, false), ElementsAre(HasSubstr("added token \"<m>\"")));
  EXPECT_THAT(warnings(tiny(), stripped, true), testing::IsEmpty());
  EXPECT_THAT(warnings(tiny(), {{"mask_token", "<m>"}}, false), testing::IsEmpty());
  Json unigram = tiny();
  unigram.erase("pre_tokenizer");
  unigram.erase("decoder");
  unigram.erase("added_tokens");
  unigram["model"] = {{"type", "Unigram"},
                      {"vocab", Json::parse(R"([["<unk>", 0.0], ["a", -1.0], ["b", -2.0]])")},
                      {"unk_id", 0}};
  EXPECT_THAT(warnings(unigram, {{"unk_token", "<unk>"}}, false), testing::IsEmpty());
  for (const Json& config : {Json::object(), Json{{"unk_token", "a"}}}) {
    EXPECT_THAT(warnings(unigram, config, false), ElementsAre(HasSubstr("unknown text")));
  }
}

TEST(HuggingFaceTokenizer, RefusesATokenizerOfItsOwnCode) {
  EXPECT_TRUE(open(tiny(), {{"auto_map", {{"AutoModel", "modeling.Model"}}}}));
  EXPECT_THAT(error_of(tiny(), {{"auto_map", {{"AutoTokenizer", {"code.Slow", nullptr}}}}}),
              HasSubstr("tokenizer_config.json.auto_map: a tokenizer defined by Python code"));
}

TEST(HuggingFaceTokenizer, NamesWhatIsDamaged) {
  struct Case {
    const char* path;
    Json value;
    const char* message;
  };

  const Case cases[] = {
      {"/model", nullptr, "expected \"model\", found none"},
      {"/model/vocab", Json::array(), "expected a JSON object of token -> id"},
      {"/model/vocab/th", -1, "expected an integer from 0"},
      {"/model/vocab/th", 97, "found id 97 for both"},
      {"/model/merges/0", "t \u00e4\u00f6", "expected its right piece in"},
      {"/model/merges/0", "t q", "merge 0: merge of \"t\" and \"q\": expected its result"},
      {"/model/merges/0", "t", "expected two pieces with a space between"},
      {"/model/merges/1", {1, 2}, "expected a string, found \"1\""},
      {"/added_tokens/0/id", 256, "an id that no other token has"},
      {"/added_tokens/0/content", "th", "expected id 256 of the vocabulary, found id 258"},
      {"/added_tokens/0/content", "</s>", "once, found it again"},
      {"/added_tokens/0/content", "", "at least one character"},
      {"/added_tokens/0/special", "yes", "expected true or false"},
  };
  for (const Case& one : cases) {
    Json file = tiny();
    file[Json::json_pointer(one.path)] = one.value;
    EXPECT_EQ(open(file).status().code(), StatusCode::kCorruption) << one.path << one.value;
    EXPECT_THAT(error_of(file), HasSubstr(one.message));
  }
}

Json unigram() {
  return {
      {"model",
       {{"type", "Unigram"},
        {"unk_id", 0},
        {"vocab", Json::parse(R"([["<unk>", 0], ["\u2581", -1], ["a", -1.5], ["\u2581a", -2]])")}}},
      {"pre_tokenizer", {{"type", "Metaspace"}}},
      {"decoder", {{"type", "Metaspace"}}}};
}

TEST(HuggingFaceTokenizer, ReadsUnigramModels) {
  for (const bool named : {true, false}) {
    Json file = unigram();
    if (!named) file["model"].erase("type");  // as older files do
    const auto tokenizer = open(file);
    ASSERT_TRUE(tokenizer) << tokenizer.error().message();
    const auto ids = (*tokenizer)->encode("a xya aa");
    EXPECT_THAT(*ids, ElementsAre(3, 1, 0, 2, 3, 2));
    EXPECT_EQ(*(*tokenizer)->decode(std::vector<int32_t>{3, 3, 2}), "a aa");
    EXPECT_EQ((*tokenizer)->token_bytes(3), " a");
  }
}

TEST(HuggingFaceTokenizer, NamesWhatIsDamagedInAUnigramModel) {
  struct Case {
    const char* path;
    Json value;
    const char* message;
  };

  const Case cases[] = {
      {"/model/unk_id", 4, ".model.unk_id: expected a piece's id, found \"4\""},
      {"/model/vocab/1", Json::array({"a"}), ".model.vocab[1]: expected a piece and its score"},
      {"/model/vocab/1/1", "x", ".model.vocab[1][1]: expected a number"},
      {"/model/vocab/1/0", "a", ".model.vocab[2]: expected a piece that is not piece 1 again"},
      {"/model/vocab", Json::array(), ".model.vocab: expected at least one piece"},
      {"/normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", "*"}}, "expected base64"},
      {"/normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", "AAAA"}}, "a size of 4"},
  };
  for (const Case& one : cases) {
    Json file = unigram();
    file[Json::json_pointer(one.path)] = one.value;
    EXPECT_EQ(open(file).status().code(), StatusCode::kCorruption) << one.path;
    EXPECT_THAT(error_of(file), HasSubstr(one.message));
  }
}

TEST(HuggingFaceTokenizer, NamesTextThatAModelWithoutUnknownTokenLacks) {
  Json file = unigram();
  file["model"]["unk_id"] = nullptr;
  const auto tokenizer = open(file);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message();
  EXPECT_TRUE((*tokenizer)->encode("a aa").has_value());
  const Status status = (*tokenizer)->encode("ab").status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("which has no unk_id, found \"b\""));
}

TEST(HuggingFaceTokenizer, ReadsWordPieceModels) {
  const Json file = {
      {"model",
       {{"type", "WordPiece"}, {"vocab", {{"[UNK]", 0}, {"un", 1}, {"##able", 2}, {",", 3}}}}},
      {"normalizer", {{"type", "BertNormalizer"}}},
      {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
      {"decoder", {{"type", "WordPiece"}}}};
  const auto tokenizer = open(file);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message();
  const auto ids = (*tokenizer)->encode("\u00dcn, UnABLE other");
  EXPECT_THAT(*ids, ElementsAre(1, 3, 1, 2, 0));
  EXPECT_EQ(*(*tokenizer)->decode(*ids), "un, unable [UNK]");
}

TEST(HuggingFaceTokenizer, DecodesTheEndsOfWordsAsSpaces) {
  const Json file = {{"model",
                      {{"type", "BPE"},
                       {"vocab", {{"a", 0}, {"b", 1}, {"a.", 2}, {"b.", 3}, {"a.b.", 4}}},
                       {"merges", Json::array()},
                       {"end_of_word_suffix", "."}}},
                     {"pre_tokenizer", {{"type", "WhitespaceSplit"}}},
                     {"decoder", {{"type", "BPEDecoder"}, {"suffix", "."}}}};
  const auto tokenizer = open(file);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message();
  EXPECT_EQ(*(*tokenizer)->decode(*(*tokenizer)->encode("ab a b")), "ab a b");
  EXPECT_EQ(*(*tokenizer)->decode(std::vector<int32_t>{4, 4}), "a b ab");
}

/// tiny() with another token in the place of a byte's.
Json without_byte() {
  Json file = tiny();
  Json& vocab = file["model"]["vocab"];
  vocab["!!"] = vocab["!"];
  vocab.erase("!");
  return file;
}

TEST(HuggingFaceTokenizer, WarnsOfBytesThatTheVocabularyLacks) {
  Json file = without_byte();
  const auto loses = open(file);
  ASSERT_TRUE(loses) << loses.error().message();
  EXPECT_THAT((*loses)->warnings(),
              ElementsAre(HasSubstr("1 of the 243 bytes that occur in UTF-8 are not in the "
                                    "vocabulary; texts lose them")));
  EXPECT_THAT(*(*loses)->encode("!the"), ElementsAre(257));
  file["model"]["unk_token"] = "th";
  EXPECT_THAT((*open(file))->warnings(), ElementsAre(HasSubstr("they become unk_token")));
  file["model"]["unk_token"] = "<unk>";
  EXPECT_THAT(error_of(file), HasSubstr("expected unk_token \"<unk>\", found none"));
}

TEST(HuggingFaceTokenizer, RefusesBytesWhereACharacterOfTheAlphabetWouldBecomeSeveral) {
  Json file = tiny();
  file["model"]["byte_fallback"] = true;
  EXPECT_TRUE(open(file));
  file = without_byte();
  file["model"]["byte_fallback"] = true;
  EXPECT_THAT(error_of(file), HasSubstr("byte_fallback after ByteLevel for a vocabulary without "
                                        "every byte is not supported"));
  file["model"]["end_of_word_suffix"] = "</w>";
  EXPECT_THAT(error_of(file), HasSubstr("byte_fallback with continuing_subword_prefix or "
                                        "end_of_word_suffix is not supported"));
}

TEST(HuggingFaceTokenizer, NamesAPatternThatTakesTooManySteps) {
  Json file = tiny();
  const Json split = {{"type", "Split"},
                      {"pattern", {{"Regex", "(a+)+(?=b)"}}},
                      {"behavior", "Isolated"},
                      {"invert", false}};
  file["pre_tokenizer"] = {{"type", "Sequence"},
                           {"pretokenizers", {split, tiny()["pre_tokenizer"]}}};
  const auto tokenizer = open(file);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message();
  EXPECT_TRUE((*tokenizer)->encode("aab").has_value());
  const Status status = (*tokenizer)->encode(std::string(200, 'a')).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(),
              HasSubstr("pattern \"(a+)+(?=b)\": expected at most 10000000 steps"));
}

TEST(HuggingFaceTokenizer, RefusesTruncatedJson) {
  const test::TempFolder folder;
  const std::string text = tiny().dump();
  test::write_file(folder.path("tokenizer.json"), text.substr(0, text.size() / 2));
  EXPECT_THAT(HuggingFaceTokenizer::open(folder.path(), {}).status().message(),
              HasSubstr("tokenizer.json: expected a JSON object, found invalid JSON"));
}

TEST(HuggingFaceTokenizer, RefusesAFolderWithoutTokenizer) {
  const test::TempFolder folder;
  const auto error = [&folder] {
    return HuggingFaceTokenizer::open(folder.path(), {}).status().message();
  };
  test::write_file(folder.path("vocab.json"), "{}");
  EXPECT_EQ(error(), folder.path() +
                         ": expected a folder with tokenizer.json, or the name of a model in " +
                         hub_cache_folder() + ", found neither (nothing is downloaded)");
}

/// A cache of huggingface_hub; with the commit that refs/main names.
class HubCache {
 public:
  explicit HubCache(const std::string& commit) {
    test::write_file(model("refs/main"), commit);
    test::write_file(model("snapshots/0a1b/tokenizer.json"), tiny().dump());
    setenv("HF_HUB_CACHE", folder_.path().c_str(), 1);
  }

  ~HubCache() { unsetenv("HF_HUB_CACHE"); }

  std::string model(const std::string& file) const {
    const std::string path = folder_.path("models--some--model/" + file);
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    return path;
  }

 private:
  test::TempFolder folder_;
};

bool opens(const std::string& model) { return HuggingFaceTokenizer::open(model, {}).has_value(); }

TEST(HuggingFaceTokenizer, OpensAModelOfTheHubsCache) {
  const HubCache cache("0a1b");
  EXPECT_TRUE(opens("some/model"));
  EXPECT_FALSE(opens("some/other"));
  EXPECT_FALSE(opens("model"));
}

TEST(HuggingFaceTokenizer, LeavesTheHubsCacheByNoName) {
  const HubCache cache("../snapshots/0a1b");
  EXPECT_FALSE(opens("some/model")) << "what refs/main names is no commit";
  for (const std::string name : {"some/../some/model", "../some/model", "some/model/",
                                 "some//model", "some/model/x", "", ".", "some--model/.."}) {
    EXPECT_EQ(cached_model_folder(name), std::nullopt) << name;
  }
}

TEST(HuggingFaceTokenizer, TakesTheAttributesOfAddedTokensFromTheConfig) {
  Json file = tiny();
  const Json stripping = {{"content", "<s>"}, {"special", true}, {"lstrip", true}};
  const Json plain = {{"content", "<s>"}, {"special", true}};
  EXPECT_THAT(*(*open(file, {{"added_tokens_decoder", {{"258", stripping}}}}))->encode("the <s>"),
              ElementsAre(257, 258));
  file["added_tokens"][0]["lstrip"] = true;
  file["added_tokens"].push_back(file["added_tokens"][0]);  // once more, which changes nothing
  EXPECT_THAT(*(*open(file))->encode("the <s>"), ElementsAre(257, 258));
  EXPECT_THAT(*(*open(file, {{"added_tokens_decoder", {{"258", plain}}}}))->encode("the <s>"),
              ElementsAre(257, ' ', 258));
}

TEST(HuggingFaceTokenizer, RefusesConfigsThatContradict) {
  const Json token = {{"content", "<s>"}, {"special", true}};
  EXPECT_THAT(error_of(tiny(), {{"added_tokens_decoder", {{"260", token}}}}),
              HasSubstr("added token \"<s>\" of tokenizer_config.json: expected id 258, found id "
                        "260"));
  EXPECT_THAT(error_of(tiny(), {{"split_special_tokens", 1}}),
              HasSubstr("split_special_tokens: expected"));
  EXPECT_THAT(error_of(tiny(), {{"eos_token", 5}}), HasSubstr("expected a token of at least"));
}

}  // namespace
}  // namespace meg::tokenizer
