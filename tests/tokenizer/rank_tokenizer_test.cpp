// TikTokenizer and NullTokenizer: what their flags and files may not be.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libmeg/tokenizer/files/internal/tiktoken/rank_file.h"
#include "libmeg/tokenizer/interface/encode_text.h"
#include "libmeg/tokenizer/registry/open_tokenizer.h"
#include "tests/temp_folder.h"

namespace meg::tokenizer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string rank_error(std::string_view text) {
  return read_rank_file(text, "ranks").status().message();
}

TEST(RankFile, ReadsLinesAndLists) {
  EXPECT_THAT(*read_rank_file("YQ== 0\r\nYWI= 1\n\nYWJj 2", "ranks"),
              ElementsAre("a", "ab", "abc"));
  EXPECT_THAT(*read_rank_file(R"([{"rank":0,"token_bytes":"YQ==","token_str":"a"}])", "ranks"),
              ElementsAre("a"));
}

TEST(RankFile, NamesLineOrEntryOfWhatIsDamaged) {
  EXPECT_EQ(rank_error("YQ== 0\nYQ= 1\n"),
            "ranks: line 2: expected base64 of a token, found \"YQ=\"");
  EXPECT_EQ(rank_error("Y*== 0"), "ranks: line 1: expected base64 of a token, found \"Y*==\"");
  EXPECT_EQ(rank_error("YR== 0"), "ranks: line 1: expected base64 of a token, found \"YR==\"");
  EXPECT_EQ(rank_error("YQ== 1"), "ranks: line 1: expected rank 0, found 1");
  EXPECT_EQ(rank_error("YQ=="),
            "ranks: line 1: expected base64, a space and a rank, found \"YQ==\"");
  EXPECT_THAT(rank_error(""), HasSubstr("found an empty file"));
  EXPECT_THAT(rank_error("[1]"), HasSubstr("ranks[0]: expected an object"));
  EXPECT_THAT(rank_error(R"([{"rank":0,"token_bytes":"YQ==","token_str":"a","more":1}])"),
              HasSubstr("rank, token_bytes and token_str alone"));
}

/// The 256 single bytes, "th" and "<s>".
std::string ranks() {
  constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t byte = 0; byte < 256; ++byte) {
    text += fmt::format("{}{}== {}\n", kAlphabet[byte >> 2], kAlphabet[(byte & 3) << 4], byte);
  }
  return text + "dGg= 256\nPHM+ 257\n";
}

class TikTokenizerFlags : public testing::Test {
 protected:
  TikTokenizerFlags() {
    options_.tokenizer_type = "TikTokenizer";
    options_.tokenizer_model = folder_.path("ranks.tiktoken");
    options_.vocab_size = 257 + 8;
    options_.tiktoken_num_special_tokens = 8;
    test::write_file(options_.tokenizer_model, ranks());
  }

  std::string error() const { return open_tokenizer(options_).status().message(); }

  const test::TempFolder folder_;
  TokenizerOptions options_;
};

TEST_F(TikTokenizerFlags, PutSpecialTokensInFront) {
  const auto tokenizer = open_tokenizer(options_);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message();
  EXPECT_EQ((*tokenizer)->vocab_size(), 265);
  EXPECT_EQ((*tokenizer)->eod(), 2);
  EXPECT_EQ((*tokenizer)->bos(), 1);
  EXPECT_EQ((*tokenizer)->special_tokens().size(), 8);
  EXPECT_THAT(*(*tokenizer)->encode("th<SPECIAL_7>"), ElementsAre(8 + 256, 7));
  EXPECT_EQ(*(*tokenizer)->decode(std::vector<int32_t>{1, 264, 8 + 'e'}), "<s>the");
}

TEST_F(TikTokenizerFlags, LeaveSpecialTextAloneInOlderRevisions) {
  options_.tiktoken_pattern = "v1";
  options_.version = *megatron::parse_megatron_version("core_v0.14.0");
  const auto tokenizer = open_tokenizer(options_);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message();
  EXPECT_EQ((*tokenizer)->encode("<s>")->size(), 3);
  EXPECT_EQ((*tokenizer)->pad(), std::nullopt);
  options_.tiktoken_pattern.clear();
  EXPECT_EQ(error(), "TikTokenizer: needs `tiktoken_pattern`");
}

TEST_F(TikTokenizerFlags, AreErrorsWhereTheyCannotBe) {
  options_.tiktoken_pattern = "v3";
  EXPECT_EQ(error(), "TikTokenizer: `tiktoken_pattern`: expected v1 or v2, found \"v3\"");
  options_.tiktoken_pattern = "v2";
  options_.tiktoken_num_special_tokens = 3;
  EXPECT_THAT(error(), HasSubstr("`tiktoken_num_special_tokens`: expected 7 to less than"));
  options_.tiktoken_num_special_tokens = 8;
  options_.tiktoken_special_tokens = {"<unk>", "<s>", "</s>"};
  EXPECT_EQ(error(), "TikTokenizer: special tokens: expected <mask> among them, found none");
  options_.tiktoken_special_tokens.clear();
  options_.vocab_size = 266;
  EXPECT_THAT(error(), HasSubstr("special token \"<s>\": it is also in the vocabulary"));
  options_.vocab_size = 300;
  EXPECT_THAT(error(), HasSubstr("expected at least 292 tokens"));
  options_.vocab_size = 100;
  EXPECT_THAT(error(), HasSubstr("expected each of the 256 single bytes as a token, found 92"));
}

TEST_F(TikTokenizerFlags, MayEndBeforeTheTokenizer) {
  options_.tiktoken_pattern = "v1";
  const auto tokenizer = open_tokenizer(options_);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message();
  options_.tiktoken_pattern = "??";
  EXPECT_THAT(*(*tokenizer)->encode("th"), ElementsAre(8 + 256));
}

TEST(NullTokenizer, FollowsTheRevision) {
  TokenizerOptions options;
  options.tokenizer_type = "NullTokenizer";
  options.vocab_size = 100;
  EXPECT_EQ((*open_tokenizer(options))->vocab_size(), 100);
  EXPECT_EQ((*open_tokenizer(options))->eod(), 99);
  options.version = *megatron::parse_megatron_version("core_v0.17.0");
  const auto tokenizer = open_tokenizer(options);
  EXPECT_EQ((*tokenizer)->vocab_size(), 101);
  EXPECT_EQ((*tokenizer)->eod(), 100);
  EXPECT_THAT(*(*tokenizer)->encode("1 22 99"), ElementsAre(1, 22, 99));
  EXPECT_EQ(*(*tokenizer)->decode(std::vector<int32_t>{1, 22}), "1 22");
  EXPECT_EQ((*tokenizer)->token_bytes(22), "22 ");
  EXPECT_EQ((*tokenizer)->encode("1  2").status().message(),
            "NullTokenizer: expected ids below 101 with single spaces between, found \"\"");
  EXPECT_FALSE((*tokenizer)->encode("101").has_value());
}

TEST(NullTokenizer, GivesNoPartOfATextThatIsNoNumbers) {
  TokenizerOptions options;
  options.tokenizer_type = "NullTokenizer";
  options.vocab_size = 100;
  const auto tokenizer = open_tokenizer(options);
  const auto encoder = (*tokenizer)->new_encoder(DType::kInt32);
  EXPECT_THAT(*encode_text(*encoder, "1 22"), ElementsAre(1, 22));
  EXPECT_EQ(encode_text(*encoder, "1 22 times").status().message(),
            "NullTokenizer: expected ids below 100 with single spaces between, found \"times\"");
}

}  // namespace
}  // namespace meg::tokenizer
