// Added tokens beside whitespace, word characters and a normalizer. The ids are those of the PyPI
// package tokenizers 0.23.3.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "libmeg/tokenizer/files/internal/huggingface/hugging_face_tokenizer.h"

namespace meg::tokenizer {
namespace {

using Json = nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using Ids = std::vector<int32_t>;

/// Words between white space: <unk>, a, b.
Json words(const Json& added, const Json& parts = Json::object()) {
  Json file = {{"added_tokens", added},
               {"pre_tokenizer", {{"type", "WhitespaceSplit"}}},
               {"model",
                {{"type", "WordLevel"},
                 {"vocab", {{"<unk>", 0}, {"a", 1}, {"b", 2}}},
                 {"unk_token", "<unk>"}}}};
  file.update(parts);
  return file;
}

Result<std::unique_ptr<HuggingFaceTokenizer>> open(const Json& file,
                                                   const TokenizerConfig& config = {}) {
  return HuggingFaceTokenizer::parse(file.dump(), "tokenizer.json", config, {});
}

Ids ids_of(const Json& file, std::string_view text, const TokenizerConfig& config = {}) {
  const auto tokenizer = open(file, config);
  EXPECT_TRUE(tokenizer) << tokenizer.status().message();
  if (!tokenizer) return {};
  const auto ids = (*tokenizer)->encode(text);
  EXPECT_TRUE(ids) << ids.status().message();
  return ids ? *ids : Ids();
}

TEST(AddedTokens, AreFoundInWhitespaceThatTheTokenBeforeTakes) {
  const Json apart = words({{{"id", 3}, {"content", "x"}, {"rstrip", true}},  //
                            {{"id", 4}, {"content", "  "}}});
  EXPECT_THAT(ids_of(apart, "x    a"), ElementsAre(3, 4, 4, 1));
  EXPECT_THAT(ids_of(apart, "x  a"), ElementsAre(3, 4, 1));
  EXPECT_THAT(ids_of(apart, "x     b"), ElementsAre(3, 4, 4, 2));
  // One that takes what is left of it, too, has nothing left and is dropped.
  const Json greedy = words({{{"id", 3}, {"content", "x"}, {"rstrip", true}},
                             {{"id", 4}, {"content", "  "}, {"lstrip", true}, {"rstrip", true}}});
  EXPECT_THAT(ids_of(greedy, "x\n  a"), ElementsAre(3, 1));
}

TEST(AddedTokens, SingleWordsMatchOnlyBetweenNonWordCharacters) {
  const Json file = words({{{"id", 3}, {"content", "Word"}, {"single_word", true}}});
  EXPECT_THAT(ids_of(file, "Word\u00bd"), ElementsAre(3, 0));  // one half is no \w
  EXPECT_THAT(ids_of(file, "\u00b2Word"), ElementsAre(0, 3));
  EXPECT_THAT(ids_of(file, "Word-"), ElementsAre(3, 0));
  EXPECT_THAT(ids_of(file, "Word\u203f"), ElementsAre(0));  // a connector is one
  EXPECT_THAT(ids_of(file, "Word\u24b6"), ElementsAre(0));  // a circled letter, too
}

TEST(AddedTokens, ThatAreSpecialAndSplitStillHideWhatOverlapsThem) {
  const Json file = words({{{"id", 3}, {"content", "<s>"}, {"special", true}, {"lstrip", true}},
                           {{"id", 4}, {"content", "<s"}, {"normalized", false}},
                           {{"id", 5}, {"content", "s>x"}, {"normalized", false}},
                           {{"id", 6}, {"content", "<x>"}, {"normalized", false}}});
  TokenizerConfig splits;
  splits.splits_special_tokens = true;
  EXPECT_THAT(ids_of(file, "a <s> b"), ElementsAre(1, 3, 2));
  EXPECT_THAT(ids_of(file, "a <s> b", splits), ElementsAre(1, 0, 2));
  EXPECT_THAT(ids_of(file, "<s>xb", splits), ElementsAre(0));
  EXPECT_THAT(ids_of(file, "<s<s>x", splits), ElementsAre(4, 0));
  EXPECT_THAT(ids_of(file, "a  <s><x>", splits), ElementsAre(1, 0, 6));
  EXPECT_NE((*open(file))->identity(), (*open(file, splits))->identity());
}

TEST(AddedTokens, NormalizedOnesAreDecodedAsNormalized) {
  const Json file = words({{{"id", 3}, {"content", "Server"}, {"normalized", true}}},
                          {{"normalizer", {{"type", "Lowercase"}}}});
  EXPECT_THAT(ids_of(file, "a SERVER b"), ElementsAre(1, 3, 2));
  EXPECT_EQ(*(*open(file))->decode(Ids{3, 1}), "server a");
}

TEST(AddedTokens, ThatTheNormalizerMakesNothingOrOneOfAreRefused) {
  const Json nothing = words({{{"id", 3}, {"content", "  "}, {"normalized", true}}},
                             {{"normalizer", {{"type", "Strip"}}}});
  EXPECT_THAT(open(nothing).status().message(),
              HasSubstr("added token \"  \": the normalizer makes nothing of it"));
  const Json same = words({{{"id", 3}, {"content", "X"}, {"normalized", true}},
                           {{"id", 4}, {"content", "x"}, {"normalized", true}}},
                          {{"normalizer", {{"type", "Lowercase"}}}});
  EXPECT_THAT(open(same).status().message(),
              HasSubstr("added token \"x\": the normalizer makes the same text as of another"));
}

TEST(Metaspace, FirstLooksAtTheTextBeforeItWasNormalized) {
  const auto first = [](const Json& normalizer, std::string_view text) {
    Json file = words(Json::array(),
                      {{"normalizer", normalizer},
                       {"pre_tokenizer", {{"type", "Metaspace"}, {"prepend_scheme", "first"}}}});
    file["model"]["vocab"]
        ["\u2581"
         "a"] = 3;
    return ids_of(file, text);
  };
  EXPECT_THAT(first({{"type", "Strip"}}, "a"), ElementsAre(3));
  EXPECT_THAT(first({{"type", "Strip"}}, " a"), ElementsAre(1));
  EXPECT_THAT(first({{"type", "Nmt"}},
                    "\x01"
                    "a"),
              ElementsAre(1));
  EXPECT_THAT(first({{"type", "StripAccents"}}, "\u0301a"), ElementsAre(1));
  for (const char* const kind : {"String", "Regex"}) {
    const Json remove = {{"type", "Replace"}, {"pattern", {{kind, "x"}}}, {"content", ""}};
    EXPECT_THAT(first(remove, "xa"), ElementsAre(1)) << kind;
    EXPECT_THAT(first(remove, "ax"), ElementsAre(3)) << kind;
  }
}

TEST(IgnoreMerges, ComparesWordsWithTextsOfTokensNotWithTheBytesTheyStandFor) {
  Json vocab = {{"a", 256}, {"b", 257}, {"ab", 258}};
  for (int byte = 0; byte < 256; ++byte) vocab[fmt::format("<0x{:02X}>", byte)] = byte;
  const Json file = words(Json::array(), {{"model",
                                           {{"type", "BPE"},
                                            {"vocab", vocab},
                                            {"merges", {"a b"}},
                                            {"byte_fallback", true},
                                            {"ignore_merges", true}}}});
  EXPECT_THAT(ids_of(file, "a ab b c <0x41> A"), ElementsAre(256, 258, 257, 99, 65, 65));
}

TEST(PostProcessor, RefusesMoreBehindATemplateThatAddsTokens) {
  const Json added = {{{"id", 3}, {"content", "</s>"}, {"special", true}}};
  const Json text = {{"Sequence", {{"id", "A"}}}};
  const Json end = {{"SpecialToken", {{"id", "</s>"}}}};
  const auto of = [&](const Json& single) {
    return Json{{"type", "TemplateProcessing"},
                {"single", single},
                {"special_tokens", {{"</s>", {{"id", "</s>"}, {"ids", {3}}}}}}};
  };
  const auto file = [&](const Json& processors) {
    return words(added, {{"post_processor", {{"type", "Sequence"}, {"processors", processors}}}});
  };
  EXPECT_THAT(
      ids_of(file({of(Json::array({text})), {{"type", "ByteLevel"}}, of({text, end})}), "a"),
      ElementsAre(1, 3));
  EXPECT_THAT(open(file({of({text, end}), of({text, end})})).status().message(),
              HasSubstr(".processors[1]: TemplateProcessing after a template is not supported"));
}

}  // namespace
}  // namespace meg::tokenizer
