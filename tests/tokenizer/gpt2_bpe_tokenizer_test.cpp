#include "libmeg/tokenizer/files/internal/gpt2/gpt2_bpe_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "libmeg/text/text_padding.h"
#include "tests/temp_folder.h"
#include "tests/tokenizer/implementations.h"
#include "tests/tokenizer/tiny_model.h"

namespace meg::tokenizer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Ids = std::vector<int32_t>;

class Gpt2BpeTokenizer : public test::ImplementationTest {
 protected:
  std::unique_ptr<GPT2BPETokenizer> open(const std::vector<std::string>& tokens,
                                         const std::string& merges, bool special_tokens = false) {
    test::write_file(folder_.path("vocab.json"), test::vocab_json(tokens));
    test::write_file(folder_.path("merges.txt"), "#version\n" + merges);
    auto tokenizer = GPT2BPETokenizer::open(folder_.path("vocab.json"), folder_.path("merges.txt"),
                                            GetParam().options(special_tokens));
    EXPECT_TRUE(tokenizer) << tokenizer.error().message();
    return std::move(tokenizer).value();
  }

 private:
  test::TempFolder folder_;
};

MEG_TEST_ALL_IMPLEMENTATIONS(Gpt2BpeTokenizer);

Ids encoded(const Tokenizer& tokenizer, std::string_view text) {
  const Result<Ids> ids = tokenizer.encode(text);
  EXPECT_TRUE(ids) << ids.error().message();
  return ids ? *ids : Ids{-1};
}

TEST_P(Gpt2BpeTokenizer, MergesTheLowestRankFirst) {
  const auto tokenizer = open({"bc", "ab", "abc"}, "b c\na b\na bc\nab c\n");
  EXPECT_THAT(encoded(*tokenizer, "abc"), ElementsAre(258));
  EXPECT_THAT(encoded(*tokenizer, "ab bc"), ElementsAre(257, ' ', 256));
  EXPECT_THAT(encoded(*tokenizer, ""), IsEmpty());
}

TEST_P(Gpt2BpeTokenizer, MergesFromLeftToRight) {
  const auto tokenizer = open({"aa", "aaaa"}, "a a\naa aa\n");
  EXPECT_THAT(encoded(*tokenizer, "aaa"), ElementsAre(256, 'a'));
  EXPECT_THAT(encoded(*tokenizer, "aaaaaaa"), ElementsAre(257, 256, 'a'));
}

TEST_P(Gpt2BpeTokenizer, JoinsAllOfAPairBeforeALowerRankThatItMakes) {
  // Joining the first `b c` makes `bc b`, of lower rank; Megatron's loop still joins the second
  // `b c` in the same round. Trained merges never come in such an order.
  const auto tokenizer = open({"bc", "bcb"}, "bc b\nb c\n");
  EXPECT_THAT(encoded(*tokenizer, "bcbc"), ElementsAre(256, 256));
  EXPECT_THAT(encoded(*tokenizer, "bcb"), ElementsAre(257));
}

TEST_P(Gpt2BpeTokenizer, FindsPiecesThatTwoPairsGive) {
  const auto tokenizer = open({"ab", "bc", "abc", "abcd"}, "b c\na bc\na b\nab c\nabc d\n");
  EXPECT_THAT(encoded(*tokenizer, "abcd"), ElementsAre(259));
}

TEST_P(Gpt2BpeTokenizer, TakesEveryByteAsItsOwnToken) {
  const auto tokenizer = open({}, "");
  EXPECT_THAT(encoded(*tokenizer, "é\n語"), ElementsAre(0xC3, 0xA9, '\n', 0xE8, 0xAA, 0x9E));
  EXPECT_THAT(encoded(*tokenizer, std::string_view("\0a\0", 3)), ElementsAre(0, 'a', 0));
}

TEST_P(Gpt2BpeTokenizer, EncodesALongWord) {
  const auto tokenizer = open({"aa", "aaaa"}, "a a\naa aa\n");
  const Ids ids = encoded(*tokenizer, std::string(1'000'003, 'a'));
  ASSERT_EQ(ids.size(), 250'002u);
  EXPECT_EQ(ids[0], 257);
  EXPECT_EQ(ids[250'000], 256);
  EXPECT_EQ(ids[250'001], 'a');
}

TEST_P(Gpt2BpeTokenizer, EncodesWordsOfEveryLengthAgainAsBefore) {
  // Lengths at which another cache, or none, remembers the word; the text has each word twice.
  const auto tokenizer = open({"ab", "ba", "abab"}, "a b\nb a\nab ab\n");
  for (const size_t size : {15, 16, 31, 32, 100, 1024, 1025, 4096, 4097, 20000, 600000}) {
    std::string word;
    while (word.size() < size) word += "ababbaab";
    word.resize(size);
    Ids expected = encoded(*tokenizer, word);
    const Ids once = expected;
    for (int i = 0; i < 2; ++i) {
      expected.push_back('\n');
      expected.insert(expected.end(), once.begin(), once.end());
    }
    EXPECT_EQ(encoded(*tokenizer, word + "\n" + word + "\n" + word), expected) << size;
  }
}

TEST_P(Gpt2BpeTokenizer, DoesNotTakeBytesOfAWordForItsLength) {
  // A control character where the key of a short word has its length, after others of one word.
  const auto tokenizer = open({"!!"}, "! !\n");
  for (int control = 1; control < 32; ++control) {
    if (control >= '\t' && control <= '\r') continue;  // whitespace
    for (size_t before = 13; before < 17; ++before) {
      const std::string word = std::string(before, '!') + static_cast<char>(control);
      Ids expected(before / 2, 256);
      if (before % 2 == 1) expected.push_back('!');
      expected.push_back(control);
      const Ids once = expected;
      for (int i = 0; i < 2; ++i) {
        expected.push_back(' ');
        expected.push_back('\n');
        expected.insert(expected.end(), once.begin(), once.end());
      }
      EXPECT_EQ(encoded(*tokenizer, word + " \n" + word + " \n" + word), expected)
          << control << " after " << before;
    }
  }
}

TEST_P(Gpt2BpeTokenizer, EncoderAppendsInEitherDtype) {
  const auto tokenizer = open({"ab"}, "a b\n");
  for (const DType dtype : {DType::kUint16, DType::kInt32}) {
    const auto encoder = tokenizer->new_encoder(dtype);
    TokenBuffer tokens(dtype);
    const std::string padded = "ab" + std::string(text::kTextPadding, 'b');
    ASSERT_TRUE(encoder->encode(std::string_view(padded).substr(0, 2), tokens).ok());
    ASSERT_TRUE(encoder->encode(std::string_view(padded).substr(0, 1), tokens).ok());
    ASSERT_EQ(tokens.size(), 2);
    EXPECT_EQ(tokens.at(0), 256);
    EXPECT_EQ(tokens.at(1), 'a');
  }
}

TEST_P(Gpt2BpeTokenizer, SpecialTokenTextIsOrdinaryUnlessAskedFor) {
  const std::vector<std::string> tokens = {"<|endoftext|>"};
  EXPECT_EQ(encoded(*open(tokens, ""), "<|endoftext|>").size(), 13u);
  const auto tokenizer = open(tokens, "", true);
  EXPECT_THAT(encoded(*tokenizer, "<|endoftext|>"), ElementsAre(256));
  EXPECT_THAT(encoded(*tokenizer, "a<|endoftext|><|endoftext|>b<|endoftext|"),
              testing::SizeIs(4 + 12));
}

TEST_P(Gpt2BpeTokenizer, TextEndsAtASpecialToken) {
  const auto tokenizer = open({"<|endoftext|>", "ĠĠ"}, "Ġ Ġ\n", true);
  EXPECT_THAT(encoded(*tokenizer, "a  <|endoftext|>"), ElementsAre('a', 257, 256));
  EXPECT_THAT(encoded(*tokenizer, "a  <"), ElementsAre('a', ' ', ' ', '<'));
}

TEST_P(Gpt2BpeTokenizer, RejectsTextThatIsNotUtf8) {
  const Result<Ids> ids = open({}, "")->encode("ab\xED\xA0\x80");
  ASSERT_FALSE(ids);
  EXPECT_EQ(ids.error().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ids.error().message(), "text: byte 2: expected UTF-8, found \"\\xed\\xa0\\x80\"");
}

TEST_P(Gpt2BpeTokenizer, DecodesWhatItEncoded) {
  const auto tokenizer = open({"aa", "Ġa", "<|endoftext|>"}, "a a\nĠ a\n");
  for (const std::string_view text : {"", "aaa a é 語 \n\n", "\U0001F600's <|endoftext|>"}) {
    const Result<std::string> decoded = tokenizer->decode(encoded(*tokenizer, text));
    ASSERT_TRUE(decoded);
    EXPECT_EQ(*decoded, text);
  }
}

TEST_P(Gpt2BpeTokenizer, DecodesPartsOfCharactersAsReplacement) {
  const auto tokenizer = open({"<|endoftext|>"}, "");
  EXPECT_EQ(*tokenizer->decode(Ids{'a', 0xE8, 0xAA, 256, 0x9E}), "a\uFFFD<|endoftext|>\uFFFD");
}

TEST_P(Gpt2BpeTokenizer, RejectsIdsOutsideTheVocabulary) {
  const Result<std::string> text = open({}, "")->decode(Ids{1, 256});
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(text.error().message(),
            "token 1: expected an id of the vocabulary (largest 255), found 256");
}

TEST_P(Gpt2BpeTokenizer, PassesTheFilesWarningsOn) {
  EXPECT_THAT(open({}, "")->warnings(), ElementsAre(HasSubstr("no merges")));
}

}  // namespace
}  // namespace meg::tokenizer
