// Ids of small tokenizers in cases that files seldom have. Expected ids are those of tokenizers
// 0.23.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "libmeg/tokenizer/files/internal/huggingface/hugging_face_tokenizer.h"
#include "tests/temp_folder.h"

namespace meg::tokenizer {
namespace {

using Json = nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using Ids = std::vector<int32_t>;

Result<Ids> encode(const Json& file, std::string_view text) {
  const test::TempFolder folder;
  test::write_file(folder.path("tokenizer.json"), file.dump());
  MEG_ASSIGN_OR_RETURN(const auto tokenizer, HuggingFaceTokenizer::open(folder.path(), {}));
  return tokenizer->encode(text);
}

Ids ids_of(const Json& file, std::string_view text) {
  const auto ids = encode(file, text);
  EXPECT_TRUE(ids) << ids.status().message();
  return ids ? *ids : Ids();
}

/// BPE of characters without merges.
Json characters(const Json& vocab) {
  return {{"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", Json::array()}}}};
}

TEST(HuggingFaceIds, TakesBytesForTheCharactersThatHaveThem) {
  Json file = characters({{"<unk>", 0}, {"a", 1}, {"<0xC3>", 2}, {"<0xA9>", 3}});
  file["model"]["unk_token"] = "<unk>";
  file["model"]["byte_fallback"] = true;
  EXPECT_THAT(ids_of(file, "a\u00e9"), ElementsAre(1, 2, 3));
  EXPECT_THAT(ids_of(file, "\u65e5a"), ElementsAre(0, 1));
  // Bytes go before an unknown token that stands in front of them.
  EXPECT_THAT(ids_of(file, "\u65e5\u00e9a"), ElementsAre(2, 3, 0, 1));
  EXPECT_THAT(ids_of(file, "\u65e5\u672c\u00e9"), ElementsAre(0, 2, 3, 0));
  file["model"]["fuse_unk"] = true;
  EXPECT_THAT(ids_of(file, "\u65e5\u00e9\u672ca"), ElementsAre(2, 3, 0, 1));
}

TEST(HuggingFaceIds, LosesBytesThatTheVocabularyLacksOrTakesTheUnknownToken) {
  Json file =
      characters({{"<unk>", 0}, {"t", 1}, {"h", 2}, {"th", 3}, {"\u0120", 4}, {"\u00c3", 5}});
  file["model"]["merges"] = {"t h"};
  file["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
  EXPECT_THAT(ids_of(file, "th \u00e9th"), ElementsAre(3, 4, 5, 3));
  EXPECT_THAT(ids_of(file, "xyth"), ElementsAre(3));
  EXPECT_THAT(ids_of(file, "xy"), ElementsAre());
  file["model"]["unk_token"] = "<unk>";
  EXPECT_THAT(ids_of(file, "th \u00e9th"), ElementsAre(3, 4, 5, 0, 3));
  EXPECT_THAT(ids_of(file, "xyth"), ElementsAre(0, 0, 3));
  file["model"]["fuse_unk"] = true;
  EXPECT_THAT(ids_of(file, "xyth"), ElementsAre(0, 3));
}

TEST(HuggingFaceIds, TellsWhereAWordBeginsAndEndsByAffixes) {
  Json file = characters({{"<unk>", 0},
                          {"a", 1},
                          {"b", 2},
                          {"a.", 3},
                          {"#a", 4},
                          {"#a.", 5},
                          {"b.", 6},
                          {"#b.", 7},
                          {"#b", 8},
                          {"ab.", 9},
                          {"#aa", 10},
                          {"aaa", 11}});
  file["model"]["merges"] = {"a #b.", "#a #a", "a #aa"};
  file["model"]["unk_token"] = "<unk>";
  file["model"]["continuing_subword_prefix"] = "#";
  file["model"]["end_of_word_suffix"] = ".";
  file["pre_tokenizer"] = {{"type", "WhitespaceSplit"}};
  EXPECT_THAT(ids_of(file, "ab aaab b a ba"), ElementsAre(9, 11, 7, 6, 3, 2, 5));
  EXPECT_THAT(ids_of(file, "xa ax"), ElementsAre(0, 5, 1, 0));
  // The result of a merge has one prefix, that of its left piece.
  file["model"]["merges"] = {"#a #b"};
  EXPECT_THAT(encode(file, "a").status().message(), HasSubstr("expected its result in"));
}

TEST(HuggingFaceIds, CutsWhatMetaspaceHasMade) {
  Json file = characters(
      {{"\u2581", 0}, {"a", 1}, {"1", 2}, {"\u25811", 3}, {"\u2581a", 4}, {"1\u2581", 5}});
  file["model"]["merges"] = {"\u2581 1", "\u2581 a", "1 \u2581"};
  Json metaspace = {{"type", "Metaspace"}, {"prepend_scheme", "first"}, {"split", true}};
  const Json digits = {{"type", "Digits"}, {"individual_digits", true}};
  for (const bool split : {true, false}) {
    metaspace["split"] = split;
    file["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {metaspace, digits}}};
    EXPECT_THAT(ids_of(file, "1 1a a  a1"), ElementsAre(0, 2, 0, 2, 1, 4, 0, 4, 2));
    EXPECT_THAT(ids_of(file, "a"), ElementsAre(4));
  }
}

TEST(HuggingFaceIds, CutsWhereTheScriptChanges) {
  Json file = characters({{"a", 0},
                          {"\u0431", 1},
                          {" ", 2},
                          {"\u4e2d", 3},
                          {"\u304b", 4},
                          {".", 5},
                          {"ab", 6},
                          {"\u4e2d\u304b", 7},
                          {"b", 8},
                          {"a ", 9},
                          {"a\u0431", 10}});
  file["model"]["merges"] = {"a b", "\u4e2d \u304b", Json::array({"a", " "}), "a \u0431"};
  file["pre_tokenizer"] = {{"type", "UnicodeScripts"}};
  EXPECT_THAT(ids_of(file, " a\u0431 a. \u4e2d\u304b ab"), ElementsAre(0, 1, 2, 0, 5, 2, 7, 2, 6));
  // What stands in front of the first script is lost, as in the package.
  EXPECT_THAT(ids_of(file, "  .a"), ElementsAre(5, 0));
  EXPECT_THAT(ids_of(file, "   "), ElementsAre());
}

TEST(HuggingFaceIds, LowersCapitalsOfUnicode16And17) {
  Json file = characters({{"\u019b", 0}, {"\u1c8a", 1}, {"\U00016ebb", 2}});
  file["normalizer"] = {{"type", "Lowercase"}};
  EXPECT_THAT(ids_of(file, "\ua7dc\u1c89\U00016ea0"), ElementsAre(0, 1, 2));
}

TEST(HuggingFaceIds, LooksUpTheWholeTextWhereMetaspaceDoesNotSplit) {
  Json file = characters({{"\u2581", 0}, {"a", 1}, {"\u2581a", 2}});
  file["model"]["ignore_merges"] = true;
  file["pre_tokenizer"] = {{"type", "Metaspace"}, {"prepend_scheme", "always"}, {"split", false}};
  EXPECT_THAT(ids_of(file, "a"), ElementsAre(2));
  EXPECT_THAT(ids_of(file, "a a"), ElementsAre(0, 1, 0, 1));
  file["pre_tokenizer"]["split"] = true;
  EXPECT_THAT(ids_of(file, "a a"), ElementsAre(2, 2));
}

TEST(HuggingFaceIds, DecidesTiesByScoresAsThePackageReadsThem) {
  const auto ids = [](double single, double triple, double first) {
    Json vocab = Json::array();
    for (const auto& [piece, score] : {std::pair("<unk>", 0.0), std::pair("b", first),
                                       std::pair("a", single), std::pair("aaa", triple)}) {
      vocab.push_back(Json::array({piece, score}));
    }
    return ids_of({{"model", {{"type", "Unigram"}, {"unk_id", 0}, {"vocab", vocab}}}}, "baaaaa");
  };
  EXPECT_THAT(ids(-1.7197380057886593, -2.9589867283276985, -1.1137952145076602),
              ElementsAre(1, 2, 3, 2));
  EXPECT_THAT(ids(-3.5182799930038198, -4.89920881293209, -1.0725902985793137),
              ElementsAre(1, 2, 2, 3));
}

struct Fronts {
  Json normalizer;
  const char* text;
  Ids ids;
};

TEST(HuggingFaceIds, PutsASpaceBeforeAllThatTheFirstCharacterBecomes) {
  const Json prepend = {{"type", "Prepend"}, {"prepend", "xx"}};
  const Json strip = {{"type", "Strip"}, {"strip_left", true}, {"strip_right", true}};
  const auto replace = [](const Json& pattern, const char* content) {
    return Json{{"type", "Replace"}, {"pattern", pattern}, {"content", content}};
  };
  const Fronts all[] = {
      {{{"type", "NFD"}}, "\u00e9a", {0, 2, 0, 5, 1}},
      {{{"type", "NFD"}}, "\u00e9\u0323a", {0, 2, 6, 5, 1}},
      {{{"type", "NFC"}}, "e\u0301a", {0, 8, 1}},
      {{{"type", "NFKD"}}, "\ufb01a", {0, 3, 0, 4, 1}},
      {{{"type", "StripAccents"}}, "\u0301ae", {1, 2}},
      {prepend, "ae", {0, 7, 0, 7, 0, 1, 2}},
      {{{"type", "Sequence"}, {"normalizers", {replace({{"String", "a"}}, " a"), strip}}},
       "ae",
       {0, 1, 2}},
      {strip, " ae", {1, 2}},
      {replace({{"String", "ae"}}, "x"), "aea", {7, 1}},
      {replace({{"String", "a"}}, "xx"), "aea", {0, 7, 0, 7, 2, 7, 7}},
      {replace({{"Regex", "a"}}, "xx"), "aea", {0, 7, 0, 7, 2, 7, 7}},
      {replace({{"Regex", "ae"}}, ""), "aea", {1}},
  };
  for (const Fronts& one : all) {
    Json file = characters({{"\u2581", 0},
                            {"a", 1},
                            {"e", 2},
                            {"f", 3},
                            {"i", 4},
                            {"\u0301", 5},
                            {"\u0323", 6},
                            {"x", 7},
                            {"\u00e9", 8}});
    file["normalizer"] = one.normalizer;
    const Json letters = {{"type", "FixedLength"}, {"length", 1}};
    const Json metaspace = {{"type", "Metaspace"}, {"prepend_scheme", "first"}, {"split", false}};
    file["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {letters, metaspace}}};
    EXPECT_EQ(ids_of(file, one.text), one.ids) << one.normalizer << one.text;
  }
}

TEST(HuggingFaceIds, PutsALaterProcessorsTokensAroundThoseOfAnEarlierOne) {
  Json file = characters({{"a", 0}, {"b", 1}, {"c", 2}, {"d", 3}, {"e", 4}});
  const Json inner = {{"type", "BertProcessing"}, {"cls", {"b", 1}}, {"sep", {"c", 2}}};
  const Json outer = {{"type", "BertProcessing"}, {"cls", {"d", 3}}, {"sep", {"e", 4}}};
  file["post_processor"] = {{"type", "Sequence"}, {"processors", {inner, outer}}};
  EXPECT_THAT(ids_of(file, "a"), ElementsAre(3, 1, 0, 2, 4));
}

TEST(HuggingFaceIds, RefusesAnAddedTokenToWhichThePackageWouldGiveAnotherId) {
  Json file = characters({{"a", 0}, {"b", 7}});
  const auto error = [&](int id) {
    file["added_tokens"] = {{{"id", 7}, {"content", "b"}}, {{"id", id}, {"content", "<s>"}}};
    return encode(file, "a").status().message();
  };
  EXPECT_EQ(error(2), "");
  EXPECT_THAT(error(8), HasSubstr("added token \"<s>\": expected id 2, which tokenizers gives it, "
                                  "found id 8"));
}

}  // namespace
}  // namespace meg::tokenizer
