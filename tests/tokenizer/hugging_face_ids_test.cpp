// Ids of small tokenizers in cases that files seldom have. Expected ids are those of tokenizers
// 0.23.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "libmeg/tokenizer/huggingface/internal/hugging_face_tokenizer.h"
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

}  // namespace
}  // namespace meg::tokenizer
