#include "libmeg/tokenizer/files/internal/bert/bert_word_piece_tokenizer.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "tests/temp_folder.h"

namespace meg::tokenizer::wordpiece {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kVocabulary[] =
    "[PAD]\n[UNK]\n[CLS]\r\n[SEP]\n[MASK]\nun\n##aff\r##able\n.\n\xE4\xB8\xAD\n";

Result<std::unique_ptr<BertWordPieceTokenizer>> parse(
    const std::string& vocabulary, const BertWordPieceTokenizer::Options& options = {}) {
  return BertWordPieceTokenizer::parse(vocabulary, "vocab.txt", options);
}

TEST(BertWordPieceTokenizer, TakesTheLongestPieces) {
  const auto tokenizer = parse(kVocabulary);
  ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().message();
  EXPECT_THAT(*(*tokenizer)->encode("Unaffable.un"), ElementsAre(5, 6, 7, 8, 5));
  EXPECT_THAT(*(*tokenizer)->encode("un\xE4\xB8\xADun unaffx"), ElementsAre(5, 9, 5, 1));
  EXPECT_EQ(*(*tokenizer)->decode(std::vector<int32_t>{5, 6, 7, 8}), "unaffable.");
}

TEST(BertWordPieceTokenizer, AddsMegatronsTokens) {
  BertWordPieceTokenizer::Options options;
  options.extra_ids = 1;
  const auto tokenizer = parse(kVocabulary, options);
  ASSERT_TRUE(tokenizer.has_value());
  EXPECT_EQ((*tokenizer)->vocab_size(), 13);  // [BOS], [EOS], <extra_id_0>
  EXPECT_EQ((*tokenizer)->bos(), 10);
  EXPECT_EQ((*tokenizer)->eod(), std::nullopt);
}

TEST(BertWordPieceTokenizer, KeepsCaseWhereAsked) {
  BertWordPieceTokenizer::Options options;
  options.lower_case = false;
  const auto tokenizer = parse(kVocabulary, options);
  EXPECT_THAT(*(*tokenizer)->encode("Un un"), ElementsAre(1, 5));
}

TEST(BertWordPieceTokenizer, RefusesDamageByName) {
  const auto message = [](const std::string& text) { return parse(text).error().message(); };
  EXPECT_THAT(message(""), HasSubstr("vocab.txt: expected a token a line, found an empty file"));
  EXPECT_THAT(message("<html>"), HasSubstr("found an HTML page"));
  EXPECT_THAT(message("a\nb\na\n"), HasSubstr("vocab.txt: line 3: \"a\" is also line 1"));
  EXPECT_THAT(message("a\n\n\n"), HasSubstr("vocab.txt: line 3: \"\" is also line 2"));
  EXPECT_THAT(message("a\n\xFF\n"), HasSubstr("vocab.txt: byte 2: expected UTF-8"));
  EXPECT_THAT(message("[PAD]\n[UNK]\n"), HasSubstr("expected a line [CLS], found none in 2 lines"));
}

TEST(OpenBertWordPiece, TakesATokenizerOfHuggingFaceSinceCore015) {
  TokenizerOptions options;
  const test::TempFolder folder;
  options.vocab_file = folder.path("vocab.txt");
  test::write_file(options.vocab_file,
                   "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nun\n##able\nable\n,\nUn\n\u00fc\n\u4e2d\n");
  const std::string text = "Unable, [MASK] \u00dcN \u4e2d";

  struct Case {
    const char* type;
    const char* version;
    std::vector<int32_t> ids;
    int64_t vocab_size;
  };

  // Expected: BertTokenizer of transformers 5.23 on this vocabulary.
  const Case cases[] = {
      {"BertWordPieceLowerCase", "core_v0.19.0", {2, 5, 6, 8, 4, 5, 11, 3}, 12},
      {"BertWordPieceLowerCase", "core_v0.16.0", {5, 6, 8, 4, 5, 11}, 12},
      {"BertWordPieceCase", "core_v0.17.0", {2, 9, 6, 8, 4, 1, 11, 3}, 112},
  };
  for (const Case& one : cases) {
    options.tokenizer_type = one.type;
    options.version = *megatron::parse_megatron_version(one.version);
    const auto tokenizer = open_bert_word_piece(options);
    ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().message();
    EXPECT_EQ(*(*tokenizer)->encode(text), one.ids) << one.type << one.version;
    EXPECT_EQ((*tokenizer)->vocab_size(), one.vocab_size);
    EXPECT_EQ((*tokenizer)->eod(), 3);
    EXPECT_EQ((*tokenizer)->bos(), 2);
  }
  options.version = *megatron::parse_megatron_version("core_v0.9.0");
  EXPECT_EQ((*open_bert_word_piece(options))->eod(), std::nullopt);
}

}  // namespace
}  // namespace meg::tokenizer::wordpiece
