#include "libmeg/tokenizer/open_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/temp_folder.h"
#include "tests/tokenizer/tiny_model.h"

namespace meg::tokenizer {
namespace {

using testing::HasSubstr;

Status error_for(const TokenizerOptions& options) { return open_tokenizer(options).status(); }

TokenizerOptions with_type(const std::string& type) {
  TokenizerOptions options;
  options.tokenizer_type = type;
  return options;
}

TEST(OpenTokenizer, OpensGpt2Bpe) {
  const test::TempFolder folder;
  TokenizerOptions options = with_type("GPT2BPETokenizer");
  options.vocab_file = folder.path("vocab.json");
  options.merge_file = folder.path("merges.txt");
  options.version = *megatron::parse_megatron_version("core_v0.15.0");
  test::write_file(options.vocab_file, test::vocab_json({"<|endoftext|>"}));
  test::write_file(options.merge_file, "#version\n");
  const Result<std::unique_ptr<Tokenizer>> tokenizer = open_tokenizer(options);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message();
  EXPECT_EQ((*tokenizer)->vocab_size(), 257);
  EXPECT_EQ((*tokenizer)->eod(), 256);
  EXPECT_THAT(*(*tokenizer)->encode("a<|endoftext|>"), testing::ElementsAre('a', 256));
  EXPECT_EQ((*tokenizer)->token_bytes(256), "<|endoftext|>");
  EXPECT_EQ((*tokenizer)->token_bytes(257), std::nullopt);
  ASSERT_EQ((*tokenizer)->special_tokens().size(), 1);
  EXPECT_EQ((*tokenizer)->special_tokens()[0].text, "<|endoftext|>");
  EXPECT_EQ((*tokenizer)->special_tokens()[0].id, 256);

  options.legacy_tokenizer = true;
  EXPECT_EQ((*open_tokenizer(options))->encode("a<|endoftext|>")->size(), 14);
}

TEST(OpenTokenizer, NamesTheMissingFlag) {
  TokenizerOptions options = with_type("GPT2BPETokenizer");
  EXPECT_EQ(error_for(options).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(error_for(options).message(), "GPT2BPETokenizer needs --vocab-file");
  options.vocab_file = "vocab.json";
  EXPECT_EQ(error_for(options).message(), "GPT2BPETokenizer needs --merge-file");
  EXPECT_THAT(error_for({}).message(), HasSubstr("--tokenizer-type is missing"));
}

TEST(OpenTokenizer, NamesTheTypesWhereOneIsUnknown) {
  const Status unknown = error_for(with_type("GPT2BPE"));
  EXPECT_EQ(unknown.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(unknown.message(), AllOf(HasSubstr("expected GPT2BPETokenizer, HuggingFaceTokenizer"),
                                       HasSubstr("found \"GPT2BPE\"")));
}

}  // namespace
}  // namespace meg::tokenizer
