#include "libmeg/evaluation/wikitext.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "libmeg/evaluation/internal/wikitext_detokenizer.h"
#include "libmeg/tokenizer/files/internal/gpt2/gpt2_bpe_tokenizer.h"
#include "libmeg/tokenizer/registry/open_tokenizer.h"
#include "tests/temp_folder.h"

namespace meg::evaluation {
namespace {

using ::testing::HasSubstr;

TEST(WikitextDetokenizer, MakesWhatMegatronMakes) {
  std::ifstream file(MEG_SOURCE_DIR "/testdata/golden/wikitext/detokenized.jsonl");
  int count = 0;
  for (std::string line; std::getline(file, line); ++count) {
    const auto example = nlohmann::json::parse(line);
    EXPECT_EQ(detokenize_wikitext(example["text"]), example["detokenized"]) << line;
  }
  EXPECT_EQ(count, 250);
}

TEST(WikitextDetokenizer, RestoresRunningText) {
  EXPECT_EQ(detokenize_wikitext(" \n = Robert Boulter = \n \n Robert was 2 @,@ 000 years old , "
                                "the \" quick \" one ( or so ) . It 's 3 @.@ 5 m @-@ long \n"),
            "\n= Robert Boulter =\n\nRobert was 2,000 years old, the \"quick\" one (or so). It's "
            "3.5 m-long\n");
}

/// A target as Megatron's dataset asks for it: its place in the text and how much stands before it.
struct Target {
  int64_t place, context;

  bool operator==(const Target&) const = default;
};

/// Megatron's dataset by its own rules: every window, padded, with a mask over the targets.
std::vector<Target> targets_by_masks(int64_t tokens, int64_t length, int64_t step) {
  const int64_t after_first = std::max(tokens - 1 - step, int64_t{0});
  const int64_t windows = std::max((after_first + step - 1) / step + 1, int64_t{1});
  std::vector<Target> targets;
  for (int64_t window = 0; window < windows; ++window) {
    const int64_t start = window * step;
    std::vector<bool> mask(static_cast<size_t>(length));
    for (int64_t i = 0; i < length; ++i) {
      const bool is_there = start + i + 1 < tokens;
      const bool is_overlap = step != length && window != 0 && i < length - step;
      mask[static_cast<size_t>(i)] = is_there && !is_overlap;
    }
    for (int64_t i = 0; i < length; ++i) {
      if (mask[static_cast<size_t>(i)]) targets.push_back({start + i + 1, i + 1});
    }
  }
  return targets;
}

TEST(WikitextWindows, AskForTheTargetsOfMegatronsMasks) {
  for (int64_t size = 2; size < 40; ++size) {
    std::vector<int32_t> tokens(static_cast<size_t>(size));
    std::iota(tokens.begin(), tokens.end(), 0);
    for (int64_t length = 1; length < 13; ++length) {
      for (int64_t step = 1; step < 16; ++step) {
        std::vector<Target> targets;
        for (const ScoringSequence& window : wikitext_windows(tokens, length, step)) {
          const auto count = static_cast<int64_t>(window.tokens.size());
          ASSERT_LE(count, length + 1);
          ASSERT_GE(window.targets, 1);
          for (int64_t i = count - window.targets; i < count; ++i) {
            targets.push_back({window.tokens[static_cast<size_t>(i)], i});
          }
        }
        ASSERT_EQ(targets, targets_by_masks(size, length, step))
            << size << " tokens, " << length << " long, " << step << " apart";
      }
    }
  }
}

class WikitextFile : public ::testing::Test {
 protected:
  Result<WikitextData> read(std::string_view text) {
    test::write_file(folder_.path("wiki.txt"), text);
    const std::string tokens = MEG_SOURCE_DIR "/testdata/tokenizer/";
    auto tokenizer =
        tokenizer::GPT2BPETokenizer::open(tokens + "vocab.json", tokens + "merges.txt", {});
    EXPECT_TRUE(tokenizer.has_value());
    return read_wikitext(folder_.path("wiki.txt"), **tokenizer);
  }

  test::TempFolder folder_;
};

TEST_F(WikitextFile, OriginalTokensAreThePartsBetweenSingleSpaces) {
  const auto data = read(" \n a b  c\nd\n ");
  ASSERT_TRUE(data.has_value()) << data.error().message();
  EXPECT_EQ(data->num_original_tokens, 4) << "an empty part counts, a line end parts nothing";
}

TEST_F(WikitextFile, WhatIsNoTextIsRefused) {
  EXPECT_THAT(read("abc \xff d").status().message(), HasSubstr("wiki.txt: byte 4: expected UTF-8"));
  EXPECT_THAT(read("").status().message(), HasSubstr("at least 2 words and tokens, found 0 and 0"));
  EXPECT_THAT(read("word").status().message(), HasSubstr("at least 2 words"));
}

TEST_F(WikitextFile, TextsWithoutIdsAreRefused) {
  const std::string path = folder_.path("wiki.txt");
  test::write_file(path, "1 two 3");
  tokenizer::TokenizerOptions options;
  options.tokenizer_type = "NullTokenizer";
  options.vocab_size = 100;
  const std::string message = read_wikitext(path, **open_tokenizer(options)).status().message();
  EXPECT_THAT(message, HasSubstr("wiki.txt: NullTokenizer: expected ids below 100"));
  EXPECT_THAT(message, HasSubstr("found \"two\""));
}

TEST(WikitextSummary, PerplexityIsAdjustedToOriginalTokens) {
  WikitextData data;
  data.tokens.assign(9, 0);
  data.num_original_tokens = 5;
  const SequenceScore scores[] = {{{}, {-1, -2}}, {{}, {-3, -1, -1, -1, -2, -1}}};
  const WikitextSummary summary = summarize_wikitext(data, scores);
  EXPECT_DOUBLE_EQ(summary.avg_loss, 1.5);
  EXPECT_DOUBLE_EQ(summary.ppl, std::exp(1.5));
  EXPECT_DOUBLE_EQ(summary.token_ratio, 2);
  EXPECT_DOUBLE_EQ(summary.adjusted_ppl, std::exp(3.0));
  const SequenceScore hopeless[] = {{{}, {-1000}}};
  EXPECT_DOUBLE_EQ(summarize_wikitext(data, hopeless).ppl, std::exp(20.0));
}

}  // namespace
}  // namespace meg::evaluation
