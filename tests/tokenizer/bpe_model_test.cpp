#include "libmeg/tokenizer/models/internal/bpe/bpe_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/shared_data.h"
#include "tests/temp_folder.h"
#include "tests/tokenizer/tiny_model.h"

namespace meg::tokenizer {
namespace {

using test::parse_model;
using test::vocab_json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// Every merge as "left right result", as bytes.
std::vector<std::string> merges_of(const Result<BpeModel>& model) {
  if (!model) return {model.error().message()};
  std::vector<std::string> merges;
  for (const BpeModel::Merge& merge : model->merges()) {
    merges.push_back(fmt::format("{} {} {}", model->piece_bytes(merge.left),
                                 model->piece_bytes(merge.right),
                                 model->piece_bytes(merge.result)));
  }
  return merges;
}

std::string error_of(const Result<BpeModel>& model) {
  return model ? "no error" : model.error().message();
}

const std::string kAbc = vocab_json({"ab", "abc", "bc", "Ġa"});

TEST(BpeModel, LoadsGpt2) {
  MEG_REQUIRE_SHARED("data/gpt2/vocab.json");
  const Result<BpeModel> model = BpeModel::load(test::shared_path("data/gpt2/vocab.json"),
                                                test::shared_path("data/gpt2/merges.txt"));
  ASSERT_TRUE(model) << model.error().message();
  EXPECT_EQ(model->vocab_size(), 50257);
  EXPECT_EQ(model->max_id(), 50256);
  EXPECT_EQ(model->eod(), 50256);
  EXPECT_EQ(model->merges().size(), 50000u);
  EXPECT_EQ(model->piece_count(), 50256);
  EXPECT_THAT(model->warnings(), IsEmpty());
}

TEST(BpeModel, NumbersBytesFirstThenPiecesByFirstUse) {
  const Result<BpeModel> model = parse_model(kAbc, "#version\nĠ a\na bc\nab c\n");
  ASSERT_TRUE(model) << model.error().message();
  EXPECT_EQ(model->piece_count(), 256 + 4);
  EXPECT_EQ(model->piece_bytes(0), std::string(1, '\0'));
  EXPECT_EQ(model->piece_bytes(255), "\xFF");
  EXPECT_EQ(model->piece_bytes(256), " a");
  EXPECT_EQ(model->piece_bytes(257), "bc");
  EXPECT_EQ(model->piece_bytes(258), "abc");
  EXPECT_EQ(model->piece_bytes(259), "ab");
  EXPECT_EQ(model->token_id(256), 259);
  EXPECT_EQ(model->token_id('a'), 'a');
  EXPECT_THAT(merges_of(model), ElementsAre("  a  a", "a bc abc", "ab c abc"));
  EXPECT_EQ(model->eod(), std::nullopt);
}

TEST(BpeModel, RepeatedPairKeepsItsLastRank) {
  EXPECT_THAT(merges_of(parse_model(kAbc, "#\na b\nb c\na bc\na b\nab c\na bc\n")),
              ElementsAre("b c bc", "a b ab", "ab c abc", "a bc abc"));
}

TEST(BpeModel, ReadsEveryLineEndAndByteOrderMark) {
  const std::vector<std::string> expected = merges_of(parse_model(kAbc, "#version\na b\nb c\n"));
  EXPECT_THAT(expected, ElementsAre("a b ab", "b c bc"));
  EXPECT_EQ(merges_of(parse_model(kAbc, "#version\r\na b\r\nb c\r\n")), expected);
  EXPECT_EQ(merges_of(parse_model(kAbc, "#version\ra b\rb c\r")), expected);
  EXPECT_EQ(merges_of(parse_model(kAbc, "\xEF\xBB\xBF#version\na b\nb c\n")), expected);
  EXPECT_EQ(merges_of(parse_model("\xEF\xBB\xBF" + kAbc, "#version\na b\nb c\n")), expected);
}

TEST(BpeModel, PartsPiecesLikePythonsSplit) {
  const std::vector<std::string> expected = {"a b ab"};
  EXPECT_EQ(merges_of(parse_model(kAbc, "#\n  a \t b\f\n")), expected);
  EXPECT_EQ(merges_of(parse_model(kAbc, "#\na\u3000b\u00A0\n")), expected);
  EXPECT_EQ(merges_of(parse_model(kAbc, "#\na\x1C\x62\n\n \n")), expected);
}

TEST(BpeModel, DropsTheFirstLineAndWarnsWhereItIsAMerge) {
  const Result<BpeModel> model = parse_model(kAbc, "a b\nb c\n");
  EXPECT_THAT(merges_of(model), ElementsAre("b c bc"));
  EXPECT_THAT(model->warnings(),
              ElementsAre(AllOf(HasSubstr("merges.txt: line 1: "), HasSubstr("\"a b\""))));
}

TEST(BpeModel, DropsTextAfterTheLastLineEndAndWarns) {
  const Result<BpeModel> model = parse_model(kAbc, "#version\na b\nb c");
  EXPECT_THAT(merges_of(model), ElementsAre("a b ab"));
  EXPECT_THAT(model->warnings(),
              ElementsAre(AllOf(HasSubstr("merges.txt: last line"), HasSubstr("\"b c\""))));
}

TEST(BpeModel, WarnsOfAFileWithoutMerges) {
  const Result<BpeModel> model = parse_model(kAbc, "#version: 0.2\n");
  ASSERT_TRUE(model) << model.error().message();
  EXPECT_THAT(model->warnings(), ElementsAre(HasSubstr("no merges")));
}

TEST(BpeModel, SaysThatAFileIsAnHtmlPage) {
  const std::string page = "\n<!DOCTYPE html>\n<html lang=\"en\">\n";
  EXPECT_EQ(error_of(parse_model(kAbc, page)),
            "merges.txt: line 1: expected \"#version\" or a merge, found an HTML page "
            "(\"<!DOCTYPE html>\"): download the raw file");
  EXPECT_EQ(error_of(parse_model("<html>", "#version\n")),
            "vocab.json: line 1: expected a JSON object, found an HTML page (\"<html>\"): "
            "download the raw file");
}

TEST(BpeModel, RejectsMergesOutsideTheVocabularyWithTheirLine) {
  EXPECT_EQ(
      error_of(parse_model(kAbc, "#version\r\na b\r\nĠt he\r\n")),
      "merges.txt: line 3: merge of \"Ġt\" and \"he\": expected its left piece in vocab.json, "
      "found none like \"Ġt\"");
  EXPECT_THAT(error_of(parse_model(kAbc, "#version\na he\n")),
              HasSubstr("line 2: merge of \"a\" and \"he\": expected its right piece"));
  EXPECT_THAT(error_of(parse_model(kAbc, "#version\nb a\n")),
              HasSubstr("expected its result in vocab.json, found none like \"ba\""));
  EXPECT_THAT(error_of(parse_model(kAbc, "#version\na b\n#version: 0.2\n")), HasSubstr("line 3: "));
}

TEST(BpeModel, RejectsLinesThatAreNotTwoPieces) {
  EXPECT_EQ(error_of(parse_model(kAbc, "#version\na b\na b c\n")),
            "merges.txt: line 3: expected two pieces, found 3: \"a b c\"");
  EXPECT_EQ(error_of(parse_model(kAbc, "#version\nab\n")),
            "merges.txt: line 2: expected two pieces, found 1: \"ab\"");
}

TEST(BpeModel, RejectsMergesThatAreNotUtf8) {
  EXPECT_EQ(error_of(parse_model(kAbc, "#version\na b\nb \xE2\x82\n")),
            "merges.txt: line 3: byte 15: expected UTF-8, found \"\\xe2\\x82\\n\"");
}

TEST(BpeModel, RejectsFilesThatWereSwapped) {
  EXPECT_THAT(error_of(parse_model("#version\na b\n", kAbc)), HasSubstr("vocab.json: expected a "));
  EXPECT_THAT(error_of(parse_model(kAbc, kAbc)),
              HasSubstr("merges.txt: expected lines, found no line end: \"{"));
}

TEST(BpeModel, RejectsEmptyFiles) {
  EXPECT_EQ(error_of(parse_model(kAbc, "")),
            "merges.txt: expected \"#version\" or a merge, found an empty file");
  EXPECT_EQ(error_of(parse_model("", "#version\n")),
            "vocab.json: expected a JSON object, found an empty file");
}

TEST(BpeModel, RejectsVocabulariesThatAreNotTokensToIds) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {kAbc.substr(0, kAbc.size() / 2), "found invalid JSON"},
      {"{\"a\": 1,}", "found invalid JSON"},
      {"{\"a\": NaN}", "found invalid JSON"},
      {"{\"\xFF\": 1}", "found invalid JSON"},
      {"[\"a\"]", "expected a JSON object of token -> id, found \"[\\\"a\\\"]\""},
      {"{}", "expected a JSON object of token -> id, found {}"},
      {"{\"a\": 1.0}", "id of \"a\": expected an integer from 0 to 2147483647, found \"1.0\""},
      {"{\"a\": -1}", "found \"-1\""},
      {"{\"a\": 2147483648}", "found \"2147483648\""},
      {"{\"a\": \"1\"}", "found \"\\\"1\\\"\""},
      {"{\"a\": null}", "found \"null\""},
      {"{\"a\": true}", "found \"true\""},
      {"{\"a\": {\"id\": 1}}", "id of \"a\""},
  };
  for (const auto& [vocab, message] : cases) {
    const Result<BpeModel> model = parse_model(vocab, "#version\n");
    ASSERT_FALSE(model) << vocab;
    EXPECT_EQ(model.error().code(), StatusCode::kCorruption) << vocab;
    EXPECT_THAT(model.error().message(), AllOf(HasSubstr("vocab.json: "), HasSubstr(message)));
  }
}

TEST(BpeModel, RepeatedKeyKeepsItsLastId) {
  const Result<BpeModel> model = parse_model("{\"a\": 5, \"b\": 6, \"a\": 7}", "#version\n");
  ASSERT_TRUE(model) << model.error().message();
  EXPECT_EQ(model->vocab_size(), 2);
  EXPECT_EQ(model->token_id('a'), 7);
  EXPECT_EQ(model->token_bytes(7), "a");
  EXPECT_EQ(model->token_bytes(5), std::nullopt);
}

TEST(BpeModel, SharedIdDecodesToItsLastToken) {
  const Result<BpeModel> model = parse_model("{\"a\": 1, \"b\": 0, \"c\": 1}", "#version\n");
  ASSERT_TRUE(model) << model.error().message();
  EXPECT_EQ(model->vocab_size(), 3);
  EXPECT_EQ(model->token_id('a'), 1);
  EXPECT_EQ(model->token_bytes(1), "c");
}

TEST(BpeModel, MissingByteBecomesIdZeroAndWarns) {
  const Result<BpeModel> model = parse_model("{\"a\": 1, \"b\": 2}", "#version\n");
  ASSERT_TRUE(model) << model.error().message();
  EXPECT_EQ(model->token_id('a'), 1);
  EXPECT_EQ(model->token_id('z'), 0);
  EXPECT_THAT(model->warnings(), testing::Contains(HasSubstr("254 of the 256 single bytes")));
}

TEST(BpeModel, TakesIdsFarApart) {
  const Result<BpeModel> model = parse_model("{\"a\": 2147483647, \"b\": 9}", "#version\n");
  ASSERT_TRUE(model) << model.error().message();
  EXPECT_EQ(model->max_id(), 2147483647);
  EXPECT_EQ(model->token_bytes(2147483647), "a");
  EXPECT_EQ(model->token_bytes(9), "b");
  for (const int32_t id : {-1, 0, 1, 8, 10, 2147483646}) {
    EXPECT_EQ(model->token_bytes(id), std::nullopt) << id;
  }
}

TEST(BpeModel, KeepsTokensOutsideTheByteAlphabetForDecoding) {
  const std::string vocab = vocab_json({"<|endoftext|>", "a 語", "a語"});
  const Result<BpeModel> model = parse_model(vocab, "#version\n");
  ASSERT_TRUE(model) << model.error().message();
  EXPECT_EQ(model->eod(), 256);
  EXPECT_EQ(model->token_bytes(256), "<|endoftext|>");
  EXPECT_EQ(model->token_bytes(257), "a 語");
  EXPECT_EQ(model->piece_count(), 256);
}

TEST(BpeModel, LeavesOutMergesThatNoTextCanHold) {
  const Result<BpeModel> model =
      parse_model(vocab_json({"語", "a語", "ab"}), "#version\na 語\na b\n");
  EXPECT_THAT(merges_of(model), ElementsAre("a b ab"));
}

TEST(BpeModel, NamesTheMissingFile) {
  const test::TempFolder folder;
  test::write_file(folder.path("vocab.json"), kAbc);
  const Result<BpeModel> model =
      BpeModel::load(folder.path("vocab.json"), folder.path("merges.txt"));
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code(), StatusCode::kNotFound);
  EXPECT_THAT(model.error().message(), HasSubstr(folder.path("merges.txt")));
}

}  // namespace
}  // namespace meg::tokenizer
