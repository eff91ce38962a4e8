// The command line of the program generate and the prompts it reads; generate_test.py runs the
// program itself.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/generation/letter_tokenizer.h"
#include "tests/temp_folder.h"
#include "tools/generate/generate.h"

namespace meg::tools {
namespace {

using test::write_file;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// What parsing prints on standard error; it must end the program with this code.
std::string usage_error(std::vector<const char*> arguments, int code = 2) {
  arguments.insert(arguments.begin(), {"generate", "--load", "none", "--tokenizer-type",
                                       "NullTokenizer", "--vocab-size", "9"});
  GenerateFlags flags;
  testing::internal::CaptureStderr();
  const auto found =
      parse_generate_flags(static_cast<int>(arguments.size()), arguments.data(), flags);
  std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(found, code) << text;
  return text;
}

TEST(GenerateFlagsTest, PromptsHaveOneSource) {
  EXPECT_THAT(usage_error({}), HasSubstr("expected one of them, found 0"));
  EXPECT_THAT(usage_error({"--prompt-file", "a", "--interactive"}), HasSubstr("found 2"));
  EXPECT_THAT(usage_error({"--prompts", "a", "--prompt-file-num-truncate", "2"}),
              HasSubstr("--prompt-file-num-truncate: expected --prompt-file, found none"));
  EXPECT_THAT(usage_error({"--interactive", "--logprobs"}), HasSubstr("--interactive: cannot"));
}

TEST(GenerateFlagsTest, WhatDoesNotGoTogetherIsWrongUsage) {
  using Flags = std::vector<const char*>;
  const std::vector<std::pair<Flags, const char*>> cases = {
      {{"--top_k", "3", "--top_p", "0.5"}, "--top_k and --top_p: expected one of them"},
      {{"--greedy", "--top_k", "3"}, "--greedy: cannot be combined"},
      {{"--beam-width", "2", "--greedy"}, "--beam-width: cannot be combined"},
      {{"--beam-width", "2", "--top_k", "3"}, "--beam-width: cannot be combined"},
      {{"--beam-width", "2", "--temperature", "0.5"}, "--beam-width: cannot be combined"},
      {{"--beam-width", "2", "--logprobs"}, "--beam-width: cannot be combined"},
      {{"--beam-width", "2", "--stop-on-eol"}, "--beam-width: cannot be combined"},
      {{"--beam-width", "2", "--length-penalty", "11"}, "--length-penalty"},
      {{"--length-penalty", "2"}, "expected --beam-width"},
      {{"--tokens-to-generate", "3", "--out-seq-length", "3"}, "--out-seq-length: expected one"},
      {{"--tokens-to-generate", "-1"}, "--tokens-to-generate"},
      {{"--top_p_decay", "0.5"}, "expected --top_p, found none"},
      {{"--top_p_bound", "0.5", "--top_k", "3"}, "expected --top_p, found"},
      {{"--top_p", "0.5", "--top_p_bound", "0.1"}, "expected --top_p_decay"},
      {{"--top_p", "0.5", "--top_p_decay", "0.9", "--top_p_bound", "0.6"},
       "--top_p_bound: expected at most the value of --top_p, 0.5"}};
  for (auto [flags, words] : cases) {
    flags.insert(flags.end(), {"--prompts", "a"});
    const std::string error = usage_error(flags);
    EXPECT_THAT(error, AllOf(HasSubstr("error: "), HasSubstr(words)));
  }
}

class GeneratePromptsTest : public testing::Test {
 protected:
  std::string file(const std::string& name, std::string_view bytes) {
    write_file(folder_.path(name), bytes);
    return folder_.path(name);
  }

  Result<std::vector<std::vector<int32_t>>> read(const std::string& path) {
    GenerateFlags flags;
    flags.prompt_file = path;
    return read_prompts(flags, tokenizer_);
  }

  std::string error_of(const std::string& path) {
    const auto prompts = read(path);
    EXPECT_FALSE(prompts.has_value());
    return prompts.status().message();
  }

  test::TempFolder folder_;
  test::LetterTokenizer tokenizer_{{"a", "b", "c", "\n"}};
};

TEST_F(GeneratePromptsTest, MarksAndEndsOfLinesAreNoPartOfThem) {
  using namespace std::string_literals;
  for (const auto& [name, bytes] :
       {std::pair("crlf.txt", "ab\r\n\r\nca\r\n"s),
        {"cr.txt", "ab\rca"s},
        {"mark.txt",
         "\xef\xbb\xbf"
         "ab\n \nca\n"s},
        {"both.jsonl", "\xef\xbb\xbf{\"text\": \"ab\"}\r\n{\"text\": \"ca\"}\r\n"s}}) {
    testing::internal::CaptureStderr();
    const auto prompts = read(file(name, bytes));
    const std::string notes = testing::internal::GetCapturedStderr();
    ASSERT_TRUE(prompts.has_value()) << prompts.status().message();
    EXPECT_EQ(*prompts, (std::vector<std::vector<int32_t>>{{0, 1}, {2, 0}})) << name;
    EXPECT_EQ(notes.find("end in CR") != notes.npos, bytes.find('\r') != bytes.npos) << notes;
    EXPECT_EQ(notes.find("byte order mark") != notes.npos, bytes.starts_with('\xef')) << notes;
  }
}

TEST_F(GeneratePromptsTest, AFileWithoutAnyIsAnError) {
  for (const char* name : {"empty.txt", "empty.jsonl"}) {
    for (const char* bytes : {"", "\xef\xbb\xbf"}) {
      EXPECT_THAT(error_of(file(name, bytes)),
                  EndsWith(name + std::string(": expected prompts, found an empty file")));
    }
    EXPECT_THAT(error_of(file(name, " \n\r\n")),
                EndsWith(name + std::string(": expected prompts, found only blank lines")));
  }
  EXPECT_THAT(error_of(folder_.path("none.jsonl")), HasSubstr("none.jsonl"));
}

TEST_F(GeneratePromptsTest, ALineThatIsNoneIsNamed) {
  EXPECT_THAT(error_of(file("bad.jsonl", "{\"text\": \"a\"}\n{\"txt\": \"b\"}\n")),
              HasSubstr("line 2"));
  EXPECT_THAT(error_of(file("bad.jsonl", "{\"text\": [\"a\", \"b\"]}\n")), HasSubstr("line 1"));
}

TEST_F(GeneratePromptsTest, LinesOfJsonInATextFileAreSaid) {
  testing::internal::CaptureStderr();
  EXPECT_TRUE(read(file("lines.json", "{\"text\": \"a\"}\n")).has_value());
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("lines.json: has JSON lines, which are prompts as they are"));
}

TEST_F(GeneratePromptsTest, ATextOnTheCommandLineIsNeitherEmptyNorAFilesName) {
  GenerateFlags flags;
  flags.prompts = {"a", ""};
  EXPECT_THAT(read_prompts(flags, tokenizer_).status().message(),
              HasSubstr("prompt 2: expected a text"));
  flags.prompts = {file("prompts.txt", "a\n")};
  EXPECT_THAT(read_prompts(flags, tokenizer_).status().message(), HasSubstr("use --prompt-file"));
}

}  // namespace
}  // namespace meg::tools
