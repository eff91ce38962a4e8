#include "libmeg/serving/internal/answer_text.h"

#include <gtest/gtest.h>

#include "libmeg/tokenizer/registry/open_tokenizer.h"

namespace meg::serving {
namespace {

std::unique_ptr<tokenizer::Tokenizer> small_tokenizer() {
  tokenizer::TokenizerOptions files;
  files.tokenizer_type = "GPT2BPETokenizer";
  files.vocab_file = MEG_SOURCE_DIR "/testdata/tokenizer/vocab.json";
  files.merge_file = MEG_SOURCE_DIR "/testdata/tokenizer/merges.txt";
  auto opened = tokenizer::open_tokenizer(files);
  EXPECT_TRUE(opened.has_value()) << opened.error().message();
  return std::move(*opened);
}

/// The text with its tokens given one by one, taken after each.
struct Streamed {
  Streamed(const tokenizer::Tokenizer& tokenizer, const std::vector<int32_t>& ids,
           const std::vector<std::string>& stops, bool echo = false) {
    AnswerText answer(tokenizer, stops, tokenizer.eod());
    EXPECT_TRUE(answer.begin({ids.data(), 1}, echo).ok());
    for (size_t i = 1; i < ids.size(); ++i) {
      EXPECT_TRUE(answer.add(ids[i]).ok());
      text += answer.take();
      begun = answer.begun_tokens();
      if (answer.is_stopped()) break;
    }
    EXPECT_TRUE(answer.finish().ok());
    text += answer.take();
    EXPECT_GE(answer.begun_tokens(), begun);
    begun = answer.begun_tokens();
    is_stopped = answer.is_stopped();
    tokens = answer.tokens();
  }

  std::string text;
  size_t begun = 0;
  bool is_stopped = false;
  int64_t tokens = 0;
};

class AnswerTextTest : public testing::Test {
 protected:
  const std::unique_ptr<tokenizer::Tokenizer> tokenizer_ = small_tokenizer();
};

TEST_F(AnswerTextTest, CutsBeforeTheFirstStopStringWhateverTokensItSpans) {
  const std::string text = "In the beginning \u20ac\u20ac the w\u00f6rd was, and aaab aab";
  std::vector<int32_t> ids = *tokenizer_->encode("x" + text);
  ASSERT_EQ(*tokenizer_->token_bytes(ids[0]), "x");
  const auto is_begin = [&](size_t at) { return at == text.size() || (text[at] & 0xC0) != 0x80; };
  for (size_t begin = 0; begin < text.size(); ++begin) {
    for (size_t size = 1; begin + size <= text.size() && size < 12; ++size) {
      if (!is_begin(begin) || !is_begin(begin + size)) continue;
      const std::string stop = text.substr(begin, size);
      const Streamed streamed(*tokenizer_, ids, {"no such text", stop});
      EXPECT_EQ(streamed.text, text.substr(0, text.find(stop))) << stop;
      EXPECT_TRUE(streamed.is_stopped);
    }
  }
}

TEST_F(AnswerTextTest, HoldsNothingBackAtTheEnd) {
  const std::vector<int32_t> ids = *tokenizer_->encode("xabc aab");
  const Streamed streamed(*tokenizer_, ids, {"abd", "b!", "aabc"});
  EXPECT_EQ(streamed.text, tokenizer_->decode(std::span(ids).subspan(1)).value());
  EXPECT_FALSE(streamed.is_stopped);
  EXPECT_EQ(streamed.begun, ids.size() - 1);
}

TEST_F(AnswerTextTest, LooksForNoStopStringInThePrompt) {
  const std::vector<int32_t> ids = *tokenizer_->encode("x world x");
  const Streamed streamed(*tokenizer_, ids, {"x w", "x"}, true);
  EXPECT_EQ(streamed.text, "x world ");
}

TEST_F(AnswerTextTest, TheEndOfDocumentHasNoTextButCounts) {
  std::vector<int32_t> ids = *tokenizer_->encode("x world");
  const int64_t generated = static_cast<int64_t>(ids.size()) - 1;
  ids.push_back(*tokenizer_->eod());
  const Streamed streamed(*tokenizer_, ids, {});
  EXPECT_EQ(streamed.text, " world");
  EXPECT_EQ(streamed.tokens, generated + 1);
  EXPECT_EQ(streamed.begun, ids.size() - 1);
}

TEST_F(AnswerTextTest, AnUnknownTokenIsAnError) {
  const std::vector<std::string> none;
  AnswerText answer(*tokenizer_, none, std::nullopt);
  EXPECT_EQ(answer.add(1 << 30).code(), StatusCode::kOutOfRange);
}

}  // namespace
}  // namespace meg::serving
