#include "libmeg/tokenizer/training/bpe_trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <random>
#include <string>

#include "libmeg/text/text_padding.h"
#include "libmeg/tokenizer/regex/internal/regex_matcher.h"
#include "libmeg/tokenizer/training/internal/table_counter.h"
#include "libmeg/tokenizer/training/internal/training_pattern.h"
#include "libmeg/tokenizer/training/save_trained_bpe.h"
#include "tests/small_filesystem.h"
#include "tests/temp_folder.h"

namespace meg::tokenizer {
namespace {

using testing::HasSubstr;

using Counts = std::map<std::string, int64_t>;

/// Words of letters, digits and signs, short and long ones.
std::string random_text(std::mt19937& random) {
  const std::string pieces[] = {"a",  "b", "the", " ",  " ", "\n", "1",
                                "23", "!", "é",   "中", "ſ", "'s", "incomprehensibilities"};
  std::string text;
  for (size_t count = random() % 60; count > 0; --count)
    text += pieces[random() % std::size(pieces)];
  return text;
}

Status count_text(WordCounter& counter, std::string text) {
  const size_t size = text.size();
  text.append(text::kTextPadding, 'x');
  return counter.count(std::string_view(text).substr(0, size));
}

Counts counts_of(TableCounter& counter, SpilledRuns& spilled) {
  std::vector<std::unique_ptr<WordRun>> runs = spilled.runs();
  runs.push_back(counter.take_run());
  std::vector<WordRun*> all;
  for (const auto& run : runs) all.push_back(run.get());
  Counts counts;
  std::optional<std::string> last;
  const Status status = merge_runs(all, [&](const CountedWord& counted) -> Status {
    const std::string word(counted.word);
    EXPECT_TRUE(!last || comes_before(*last, word)) << *last << " " << word;
    last = counts.try_emplace(word, counted.count).first->first;
    return {};
  });
  EXPECT_TRUE(status.ok()) << status.message();
  return counts;
}

void add_words(const RegexMatcher& matcher, std::string_view text, Counts& counts) {
  for (size_t at = 0; at < text.size();) {
    const size_t end = (*matcher.find(text, at))->second;
    if (end - at > 1) ++counts[std::string(text.substr(at, end - at))];
    at = end;
  }
}

TEST(TableCounter, CountsTheWordsOfThePatternWithAnyMemory) {
  const test::TempFolder folder;
  for (const std::string_view pattern : training_patterns()) {
    const auto words = training_pre_tokenizer(std::string(pattern));
    ASSERT_TRUE(words.has_value()) << words.error().message();
    const auto matcher = RegexMatcher::compile(words->words, "pattern");
    ASSERT_TRUE(matcher.has_value());
    for (const size_t memory : {size_t{1}, size_t{100'000}, size_t{1} << 30}) {
      std::mt19937 random(5);
      SpilledRuns spilled(folder.path("counts"));
      TableCounter counter(*words, memory, spilled);
      Counts expected;
      for (int i = 0; i < 200; ++i) {
        const std::string text = random_text(random);
        add_words(*matcher, text, expected);
        ASSERT_TRUE(count_text(counter, text).ok());
      }
      EXPECT_EQ(counts_of(counter, spilled), expected) << pattern << ", " << memory << " bytes";
      EXPECT_EQ(spilled.bytes() > 0, memory == 1);
    }
  }
  EXPECT_EQ(folder.file_count(), 0);
}

TEST(TableCounter, NamesTheFileOfAFullDisk) {
  const test::TempFolder folder;
  const bool is_mounted =
      test::in_small_filesystem(folder.path(), "size=64k", [&]() -> std::string {
        const auto words = training_pre_tokenizer("gpt2");
        SpilledRuns spilled(folder.path("counts"));
        TableCounter counter(*words, 1, spilled);
        Status status;
        for (int i = 0; status.ok() && i < 10'000; ++i) {
          status = count_text(counter, "word" + std::to_string(i) + std::string(100, 'x'));
        }
        return status.message().find("counts: No space left") != std::string::npos
                   ? ""
                   : "found: " + status.message();
      });
  if (!is_mounted) GTEST_SKIP() << "mounting is not allowed";
}

BpeTrainerOptions options_of(int64_t vocab_size,
                             const std::vector<std::string>& special_tokens = {},
                             const std::string& pattern = "gpt2") {
  BpeTrainerOptions options;
  options.vocab_size = vocab_size;
  options.special_tokens = special_tokens;
  options.pattern = pattern;
  return options;
}

SaveOptions saved_to(const test::TempFolder& folder, const std::string& eos_token = "") {
  SaveOptions options;
  options.folder = folder.path();
  options.eos_token = eos_token;
  return options;
}

struct BadOptions {
  BpeTrainerOptions options;
  std::string message;
};

TEST(BpeTrainer, RefusesWrongOptions) {
  const BadOptions cases[] = {
      {options_of(255), "vocab_size: expected 256 (256 bytes and 0 special tokens)"},
      {options_of(257, {"<a>", "<b>"}), "expected 258"},
      {options_of(int64_t{1} << 31), "found 2147483648"},
      {options_of(300, {"<a>", "<a>"}), "\"<a>\": it was given twice"},
      {options_of(300, {""}), "expected at least one character"},
      {options_of(300, {"\xff"}), "expected UTF-8"},
      {options_of(300, {"a"}), "the token of a byte"},
      {options_of(300, {"\xC4\xA0"}), "the token of a byte"},
      {options_of(300, {}, "gpt3"), "or a regular expression, found \"gpt3\""},
      {options_of(300, {}, "cl100"), "did you mean cl100k?"},
      {options_of(300, {}, ""), "expected gpt2"},
      {options_of(300, {}, "(a"), "pattern \"(a\": "},
      {options_of(300, {}, "\\Xword"), "\\X in a pattern"},
  };
  for (const auto& [options, message] : cases) {
    const auto trainer = BpeTrainer::create(options, 1);
    ASSERT_FALSE(trainer.has_value()) << message;
    EXPECT_THAT(trainer.error().message(), HasSubstr(message));
  }
}

Result<TrainedBpe> train(const BpeTrainerOptions& options, int counters) {
  MEG_ASSIGN_OR_RETURN(BpeTrainer trainer, BpeTrainer::create(options, counters));
  std::mt19937 random(7);
  for (int i = 0; i < 400; ++i) {
    MEG_RETURN_IF_ERROR(count_text(trainer.counter(i % counters), random_text(random)));
  }
  return trainer.train({});
}

TEST(BpeTrainer, LearnsTheSameWithAnyCountersAndMemory) {
  const test::TempFolder folder;
  BpeTrainerOptions options = options_of(600, {"<|endoftext|>"});
  options.spill_path = folder.path("counts");
  const auto expected = train(options, 1);
  ASSERT_TRUE(expected.has_value()) << expected.error().message();
  EXPECT_FALSE(expected->merges.empty());
  options.memory_budget = 100;
  for (const int counters : {1, 3}) {
    const auto found = train(options, counters);
    ASSERT_TRUE(found.has_value()) << found.error().message();
    EXPECT_EQ(found->tokens, expected->tokens);
    EXPECT_EQ(found->merges, expected->merges);
    EXPECT_EQ(found->words, expected->words);
    EXPECT_EQ(found->distinct_words, expected->distinct_words);
    EXPECT_GT(found->spilled_bytes, 0);
  }
}

TEST(TrainedBpeFiles, LeavesNothingBehindUnlessItIsSaved) {
  const test::TempFolder folder;
  EXPECT_TRUE(TrainedBpeFiles::create(saved_to(folder), options_of(300)).has_value());
  EXPECT_EQ(folder.file_count(), 0);
}

TEST(TrainedBpeFiles, RefusesFilesOfAnotherTokenizerAndTokensThatAreNoSpecialOnes) {
  const test::TempFolder folder;
  const BpeTrainerOptions options = options_of(300, {"<s>"}, "llama3");
  const auto named = TrainedBpeFiles::create(saved_to(folder, "</s>"), options);
  ASSERT_FALSE(named.has_value());
  EXPECT_THAT(named.error().message(), HasSubstr("eos_token: expected one of the special tokens"));
  for (const char* const file : {"vocab.json", "special_tokens_map.json"}) {
    test::write_file(folder.path(file), "{}");
    const auto found = TrainedBpeFiles::create(saved_to(folder), options);
    ASSERT_FALSE(found.has_value());
    EXPECT_THAT(found.error().message(), HasSubstr(std::string(file) + ": a file of another"));
    std::filesystem::remove(folder.path(file));
  }
}

}  // namespace
}  // namespace meg::tokenizer
