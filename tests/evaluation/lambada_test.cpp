#include "libmeg/evaluation/lambada.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "libmeg/tokenizer/files/internal/gpt2/gpt2_bpe_tokenizer.h"
#include "libmeg/tokenizer/registry/open_tokenizer.h"
#include "tests/nn/small_model.h"
#include "tests/temp_folder.h"

namespace meg::evaluation {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const tokenizer::Tokenizer& tokenizer() {
  static const auto opened =
      tokenizer::GPT2BPETokenizer::open(MEG_SOURCE_DIR "/testdata/tokenizer/vocab.json",
                                        MEG_SOURCE_DIR "/testdata/tokenizer/merges.txt", {});
  return **opened;
}

std::vector<int32_t> ids(std::string_view text) { return *tokenizer().encode(text); }

Result<std::vector<LambadaExample>> examples_of(const std::vector<std::string>& texts,
                                                LambadaTarget target, int64_t length = 1024) {
  return lambada_examples(texts, target, tokenizer(), length, "lambada.jsonl");
}

TEST(LambadaFile, HoldsATextALine) {
  const test::TempFolder folder;
  test::write_file(folder.path("a"), "{\"text\": \"a\\nb\"}\r\n{\"id\": 1, \"text\": \"\\u00e9\"}");
  const auto texts = read_lambada_texts(folder.path("a"));
  ASSERT_TRUE(texts.has_value()) << texts.error().message();
  EXPECT_THAT(*texts, ElementsAre("a\nb", "\u00e9"));
}

TEST(LambadaFile, WhatIsOfAnotherFormIsNamedWithItsLine) {
  const test::TempFolder folder;
  const auto error_of = [&](std::string_view bytes) {
    test::write_file(folder.path("l"), bytes);
    return read_lambada_texts(folder.path("l")).status().message();
  };
  EXPECT_THAT(error_of("{\"text\": \"a\"}\nplain words\n"),
              HasSubstr("l: line 2: byte 1: expected"));
  EXPECT_THAT(error_of("{\"story\": \"a\"}\n"), HasSubstr("l: line 1: "));
  EXPECT_THAT(error_of("{\"story\": \"a\"}\n"), HasSubstr("text"));
  EXPECT_THAT(error_of("{\"text\": \"a\"}\n\n{\"text\": \"a\"}\n"), HasSubstr("l: line 2: "));
  EXPECT_THAT(error_of("{\"text\": 3}\n"), HasSubstr("l: line 1: "));
  EXPECT_THAT(error_of("{\"text\": []}\n"), HasSubstr("expected one text, found 0"));
  EXPECT_THAT(error_of(""), HasSubstr("found an empty file"));
  EXPECT_EQ(read_lambada_texts(folder.path("none")).status().code(), StatusCode::kNotFound);
}

TEST(LambadaExamples, TheLastTokenOfTheWholeTextIsTheTarget) {
  const auto examples = examples_of({"In the beginning "}, LambadaTarget::kLastToken);
  ASSERT_TRUE(examples.has_value()) << examples.error().message();
  EXPECT_EQ((*examples)[0].tokens, ids("In the beginning "));
  EXPECT_EQ((*examples)[0].targets, 1);
}

TEST(LambadaExamples, TheLastWordIsTokenizedByItselfWithOneSpace) {
  const auto examples = examples_of({"  the house of\n\n houses  "}, LambadaTarget::kLastWord);
  ASSERT_TRUE(examples.has_value()) << examples.error().message();
  std::vector<int32_t> expected = ids("the house of");
  const std::vector<int32_t> word = ids(" houses");
  expected.insert(expected.end(), word.begin(), word.end());
  EXPECT_EQ((*examples)[0].tokens, expected);
  EXPECT_EQ((*examples)[0].targets, static_cast<int64_t>(word.size()));
}

TEST(LambadaExamples, LongContextsLoseTheirBeginning) {
  const std::string text = "and the earth was without form and void and darkness";
  const auto whole = examples_of({text}, LambadaTarget::kLastWord);
  const auto cut = examples_of({text}, LambadaTarget::kLastWord, 6);
  ASSERT_TRUE(whole.has_value() && cut.has_value());
  const LambadaExample& example = (*cut)[0];
  EXPECT_EQ(example.targets, (*whole)[0].targets);
  EXPECT_EQ(example.tokens.size(), 7U) << "the last token only answers";
  EXPECT_TRUE(
      std::equal(example.tokens.rbegin(), example.tokens.rend(), (*whole)[0].tokens.rbegin()));
}

TEST(LambadaExamples, TextsWithoutTargetOrContextAreRefused) {
  const auto error_of = [](const std::string& text, LambadaTarget target, int64_t length = 8) {
    return examples_of({"a b", text}, target, length).status().message();
  };
  EXPECT_THAT(error_of("", LambadaTarget::kLastToken),
              HasSubstr("lambada.jsonl: line 2: expected a word to predict, found none"));
  EXPECT_THAT(error_of(" \n ", LambadaTarget::kLastWord), HasSubstr("a word to predict"));
  EXPECT_THAT(error_of("word", LambadaTarget::kLastWord), HasSubstr("text before"));
  EXPECT_THAT(error_of("b qqqqzzzzqqqqzzzzxxxx", LambadaTarget::kLastWord),
              HasSubstr("line 2: expected a word of up to 8 tokens"));
}

TEST(LambadaExamples, TextsWithoutIdsAreRefused) {
  tokenizer::TokenizerOptions options;
  options.tokenizer_type = "NullTokenizer";
  options.vocab_size = 100;
  const auto numbers = tokenizer::open_tokenizer(options);
  const auto error_of = [&](const std::string& text, LambadaTarget target) {
    const std::vector<std::string> texts = {text};
    return lambada_examples(texts, target, **numbers, 8, "l").status().message();
  };
  EXPECT_THAT(error_of("1 two 3", LambadaTarget::kLastToken),
              AllOf(HasSubstr("l: line 1: NullTokenizer: expected ids"), HasSubstr("\"two\"")));
  EXPECT_THAT(error_of("two 3", LambadaTarget::kLastWord), HasSubstr("\"two\""));
  EXPECT_THAT(error_of("1 3", LambadaTarget::kLastWord), HasSubstr("\"\"")) << "the space before";
}

TEST(LambadaScores, SharedSequencesScoreAsThoughAlone) {
  model::GptConfig config = test::small_config();
  config.padded_vocab_size = 2304;
  config.max_position_embeddings = 64;
  nn::GptModel model = test::small_model(config);
  model.set_training(false);
  const std::vector<std::string> texts = {"the house of the lords", "let there be light ",
                                          "and there was lightheartedness"};
  std::vector<std::vector<LambadaExample>> both;
  for (const LambadaTarget target : {LambadaTarget::kLastToken, LambadaTarget::kLastWord}) {
    auto examples = examples_of(texts, target, 64);
    ASSERT_TRUE(examples.has_value()) << examples.error().message();
    both.push_back(*examples);
  }
  ScoringOptions options;
  options.vocab_size = tokenizer().vocab_size();
  const auto together = score_lambada(model, both, options);
  ASSERT_TRUE(together.has_value()) << together.error().message();
  for (size_t d = 0; d < both.size(); ++d) {
    const auto alone = score_lambada(model, std::span(both).subspan(d, 1), options);
    ASSERT_TRUE(alone.has_value()) << alone.error().message();
    for (size_t i = 0; i < texts.size(); ++i) {
      EXPECT_EQ((*together)[d][i].predicted, (*alone)[0][i].predicted);
      ASSERT_EQ((*together)[d][i].logprobs.size(), static_cast<size_t>(both[d][i].targets));
      EXPECT_NEAR((*together)[d][i].logprob(), (*alone)[0][i].logprob(), 1e-4);
    }
  }
}

TEST(LambadaSummary, CountsExamplesThatAreRightAtEveryPlace) {
  const LambadaExample examples[] = {{{1, 2, 3}, 2}, {{1, 2, 3}, 2}, {{4, 5}, 1}};
  const SequenceScore scores[] = {{{2, 3}, {-1, -2}}, {{2, 4}, {-1, -1}}, {{5}, {-4}}};
  const LambadaSummary summary = summarize_lambada(examples, scores);
  EXPECT_EQ(summary.correct, 2);
  EXPECT_DOUBLE_EQ(summary.accuracy, 2.0 / 3);
  EXPECT_DOUBLE_EQ(summary.perplexity, std::exp(3.0));
}

}  // namespace
}  // namespace meg::evaluation
