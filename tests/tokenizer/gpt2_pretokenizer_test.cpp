#include "libmeg/tokenizer/words/internal/reference/gpt2_pretokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace meg::tokenizer::reference {
namespace {

using testing::ElementsAre;

std::vector<std::string> words(std::string_view text) {
  std::vector<std::string> found;
  while (!text.empty()) {
    found.emplace_back(text.substr(0, first_word_size(text)));
    text.remove_prefix(found.back().size());
  }
  return found;
}

TEST(Gpt2Pretokenizer, PutsOneSpaceBeforeItsWord) {
  EXPECT_THAT(words("Hello world"), ElementsAre("Hello", " world"));
  EXPECT_THAT(words("a  b"), ElementsAre("a", " ", " b"));
  EXPECT_THAT(words("a   42"), ElementsAre("a", "  ", " 42"));
  EXPECT_THAT(words(" "), ElementsAre(" "));
}

TEST(Gpt2Pretokenizer, OnlyABlankJoinsAWord) {
  EXPECT_THAT(words("a\tb"), ElementsAre("a", "\t", "b"));
  EXPECT_THAT(words("a\u00A0b"), ElementsAre("a", "\u00A0", "b"));
  EXPECT_THAT(words("a \tb"), ElementsAre("a", " ", "\t", "b"));
  EXPECT_THAT(words("a\t b"), ElementsAre("a", "\t", " b"));
}

TEST(Gpt2Pretokenizer, KeepsSpacesAtTheEndTogether) {
  EXPECT_THAT(words("a  \n"), ElementsAre("a", "  \n"));
  EXPECT_THAT(words("\u2003\u3000"), ElementsAre("\u2003\u3000"));
  EXPECT_THAT(words("\u2003\u3000x"), ElementsAre("\u2003", "\u3000", "x"));
}

TEST(Gpt2Pretokenizer, PartsLettersNumbersAndTheRest) {
  EXPECT_THAT(words("abc123!?x"), ElementsAre("abc", "123", "!?", "x"));
  EXPECT_THAT(words(" ½Ⅷ٣ 語é _"), ElementsAre(" ½Ⅷ٣", " 語é", " _"));
  EXPECT_THAT(words("e\u0301a"), ElementsAre("e", "\u0301", "a"));
  EXPECT_THAT(words("a\x1C\x1F z"), ElementsAre("a", "\x1C\x1F", " z"));
  EXPECT_THAT(words(std::string("a\0b", 3)), ElementsAre("a", std::string(1, '\0'), "b"));
}

TEST(Gpt2Pretokenizer, CutsLowerCaseContractions) {
  EXPECT_THAT(words("it's we'll they've I'd I'm you're don't"),
              ElementsAre("it", "'s", " we", "'ll", " they", "'ve", " I", "'d", " I", "'m", " you",
                          "'re", " don", "'t"));
  EXPECT_THAT(words("IT'S"), ElementsAre("IT", "'", "S"));
  EXPECT_THAT(words("'storm"), ElementsAre("'s", "torm"));
  EXPECT_THAT(words(" 's"), ElementsAre(" '", "s"));
  EXPECT_THAT(words("''s"), ElementsAre("''", "s"));
  EXPECT_THAT(words("'l 'r"), ElementsAre("'", "l", " '", "r"));
}

TEST(Gpt2Pretokenizer, LeavesSpecialTokenTextOrdinary) {
  EXPECT_THAT(words("<|endoftext|>"), ElementsAre("<|", "endoftext", "|>"));
}

}  // namespace
}  // namespace meg::tokenizer::reference
