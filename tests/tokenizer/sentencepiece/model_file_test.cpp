#include "libmeg/tokenizer/models/internal/sentencepiece/model_file.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "libmeg/tokenizer/files/internal/sentencepiece/sentencepiece_tokenizer.h"
#include "tests/tokenizer/sentencepiece/tiny_model.h"

namespace meg::tokenizer::sentencepiece {
namespace {

using test::abc_model;
using test::TinyModel;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

constexpr uint64_t kUnigram = 1;
constexpr uint64_t kBpe = 2;

Result<std::unique_ptr<SentencePieceTokenizer>> open(
    const std::string& bytes, const SentencePieceTokenizer::Options& options = {}) {
  MEG_ASSIGN_OR_RETURN(ModelFile file, ModelFile::parse(bytes, "m.model"));
  MEG_ASSIGN_OR_RETURN(Model model, Model::build(std::move(file)));
  return SentencePieceTokenizer::build(std::move(model), options);
}

std::vector<int32_t> encoded(const TinyModel& model, const std::string& text) {
  const auto tokenizer = open(model.serialized());
  EXPECT_TRUE(tokenizer.has_value()) << tokenizer.error().message();
  return tokenizer ? *(*tokenizer)->encode(text) : std::vector<int32_t>{};
}

TEST(ModelFile, DecidesIdsByItsType) {
  const auto model = [](uint64_t type) { return abc_model(type).piece("\xE2\x96\x81\x61", -0.5f); };
  EXPECT_THAT(encoded(model(kUnigram), "abc ab"), ElementsAre(3, 8, 9));
  EXPECT_THAT(encoded(model(kBpe), "abc ab"), ElementsAre(9, 6, 9));
}

TEST(ModelFile, GivesOneUnknownIdForARun) {
  EXPECT_THAT(encoded(abc_model(kUnigram), "axya"), ElementsAre(3, 4, 0, 4));
  EXPECT_THAT(encoded(abc_model(kBpe), "xx yy"), ElementsAre(3, 0, 3, 0));
}

struct Damage {
  const char* name;
  std::string bytes;
  const char* message;
};

TinyModel plain() { return abc_model(kBpe); }

std::string message(std::string_view bytes) {
  const auto tokenizer = open(std::string(bytes));
  return tokenizer ? "" : tokenizer.error().message();
}

TEST(ModelFile, RefusesDamageByName) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinite = std::numeric_limits<float>::infinity();
  const std::string too_long(8000, 'a');
  const std::vector<Damage> damages = {
      {"empty file", "", "expected a SentencePiece model, found an empty file"},
      {"JSON", R"({"version": "1.0"})", "expected a SentencePiece model, found JSON"},
      {"page", "<!DOCTYPE html><html>", "found an HTML page"},
      {"no unknown", TinyModel().piece("a").serialized(), "expected a piece of type unknown"},
      {"two unknowns", plain().piece("<u>", 0, TinyModel::kUnknown).serialized(),
       "piece 10: piece 0 is already the unknown one"},
      {"twice", plain().piece("ab").serialized(), "piece 10: \"ab\" is also an earlier piece"},
      {"empty piece", plain().piece("").serialized(), "piece 10: expected a piece, found an empty"},
      {"NUL", plain().piece(std::string("a\0b", 3)).serialized(), "expected a piece without NUL"},
      {"not UTF-8", plain().piece("a\xFF").serialized(), "expected UTF-8, found \"\\xff\""},
      {"too long", plain().piece(too_long).serialized(), "expected less than 8000 bytes"},
      {"NaN", plain().piece("x", nan).serialized(), "score: expected a finite number, found nan"},
      {"infinite", plain().piece("x", -infinite).serialized(), "finite number, found -inf"},
      {"type of piece", plain().piece("x", 0, 7).serialized(), "a type from 1 to 6, found 7"},
      {"type of model", abc_model(5).serialized(), "expected a type from 1 to 4, found 5"},
      {"byte piece", plain().piece("<0x00>", 0, TinyModel::kByte).serialized(),
       "expected no byte pieces without byte_fallback"},
      {"no byte pieces", plain().trainer(35, 1).serialized(), "the 256 byte pieces"},
      {"wrong byte piece", plain().trainer(35, 1).piece("<0xGG>", 0, TinyModel::kByte).serialized(),
       "expected <0x00> to <0xFF>"},
      {"charsmap cut", plain().charsmap("ab").serialized(), "expected a size of 4 bytes"},
      {"charsmap size", plain().charsmap(std::string("\xFF\xFF\x00\x00 ab\0", 8)).serialized(),
       "expected a trie of a multiple of 1024 bytes"},
      {"charsmap of zeros",
       plain().charsmap(std::string("\0\4\0\0", 4) + std::string(1025, '\0')).serialized(),
       "unit 0 of the trie leads outside of it"},
      {"wire type", "\x0B", "expected wire type 0, 1, 2 or 5, found 3"},
      {"field 0", std::string("\0", 1), "found field number 0"},
      {"piece as a number", "\x08\x01", "pieces: expected wire type 2, found 0"},
  };
  for (const Damage& damage : damages) {
    EXPECT_THAT(message(damage.bytes), HasSubstr(damage.message)) << damage.name;
  }
}

/// Whatever a model says, encoding and decoding end and stay inside the vocabulary.
void check_opens_or_says_why(const std::string& bytes) {
  const auto tokenizer = open(bytes);
  if (!tokenizer) {
    EXPECT_EQ(tokenizer.error().message().find('\n'), std::string::npos);
    return;
  }
  const auto ids = (*tokenizer)->encode("abc a  cab \xE2\x96\x81 x\xC3\xA9");
  ASSERT_TRUE(ids.has_value());
  for (const int32_t id : *ids) EXPECT_LE(id, (*tokenizer)->max_id());
  EXPECT_TRUE((*tokenizer)->decode(*ids).has_value());
}

TEST(ModelFile, SurvivesEveryCutAndFlippedByte) {
  for (const uint64_t type : {kUnigram, kBpe}) {
    const std::string bytes = abc_model(type).serialized();
    for (size_t at = 0; at < bytes.size(); ++at) {
      check_opens_or_says_why(bytes.substr(0, at));
      for (int bit = 0; bit < 8; ++bit) {
        std::string flipped = bytes;
        flipped[at] = static_cast<char>(flipped[at] ^ (1 << bit));
        check_opens_or_says_why(flipped);
      }
    }
  }
}

TEST(SentencePieceTokenizer, NeedsThePieceThatBeginsTexts) {
  SentencePieceTokenizer::Options options;
  options.bos_in_front = true;
  const TinyModel model = TinyModel().piece("<unk>", 0, TinyModel::kUnknown).piece("a");
  const auto tokenizer = open(model.serialized(), options);
  ASSERT_FALSE(tokenizer.has_value());
  EXPECT_THAT(tokenizer.error().message(), StartsWith("expected a control piece <s>"));
}

TEST(SentencePieceTokenizer, CutsSpecialTokensOutOfTexts) {
  SentencePieceTokenizer::Options options;
  options.special_tokens = true;
  options.extra_ids = 2;
  const auto tokenizer = open(abc_model(kBpe).serialized(), options);
  ASSERT_TRUE(tokenizer.has_value());
  // 10 <CLS>, 11 <SEP>, 12 <EOD>, 13 <MASK>, 14 <PAD>; <s> and </s> are pieces; 15 <extra_id_0>
  EXPECT_EQ((*tokenizer)->vocab_size(), 17);
  EXPECT_EQ((*tokenizer)->eod(), 12);
  EXPECT_THAT(*(*tokenizer)->encode("a<extra_id_1><s>ab<MASK>"), ElementsAre(3, 4, 16, 1, 9, 13));
  EXPECT_EQ(*(*tokenizer)->decode(std::vector<int32_t>{9, 12, 9}), "ab <EOD> ab");
}

TEST(SentencePieceTokenizer, RefusesIdsOutsideTheVocabulary) {
  const auto tokenizer = open(abc_model(kBpe).serialized());
  ASSERT_TRUE(tokenizer.has_value());
  const auto text = (*tokenizer)->decode(std::vector<int32_t>{4, 10});
  ASSERT_FALSE(text.has_value());
  EXPECT_EQ(text.error().message(),
            "token 1: expected an id of the vocabulary (largest 9), found 10");
}

}  // namespace
}  // namespace meg::tokenizer::sentencepiece
