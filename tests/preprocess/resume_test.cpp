#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "libmeg/preprocess/preprocess.h"
#include "tests/io/compressed.h"
#include "tests/preprocess/byte_tokenizer.h"
#include "tests/temp_folder.h"

namespace meg::preprocess {
namespace {

namespace fs = std::filesystem;

using test::ByteTokenizer;
using testing::HasSubstr;

/// Kills the process when it is asked for so many texts.
class DeadlyTokenizer : public ByteTokenizer {
 public:
  explicit DeadlyTokenizer(int64_t texts) : left_(texts) {}

  std::unique_ptr<tokenizer::TokenEncoder> new_encoder(DType dtype) const override {
    struct Encoder : tokenizer::TokenEncoder {
      Status encode(std::string_view text, tokenizer::TokenBuffer& tokens) override {
        if (--*left == 0) ::kill(::getpid(), SIGKILL);
        return real->encode(text, tokens);
      }

      std::unique_ptr<tokenizer::TokenEncoder> real;
      std::atomic<int64_t>* left = nullptr;
    };

    auto encoder = std::make_unique<Encoder>();
    encoder->real = ByteTokenizer::new_encoder(dtype);
    encoder->left = &left_;
    return encoder;
  }

 private:
  mutable std::atomic<int64_t> left_;
};

std::string lines_of(std::mt19937& random, int count) {
  std::string lines;
  for (int i = 0; i < count; ++i) {
    const std::string text(random() % 60, static_cast<char>('a' + random() % 26));
    const std::string other(random() % 9, static_cast<char>('A' + random() % 26));
    lines += R"({"text": ")" + text + R"(", "other": ["x", ")" + other + "\"]}\n";
    if (random() % 50 == 0) lines += "\n";
    if (random() % 70 == 0) lines += "{\n";  // skipped
  }
  return lines;
}

class ResumeTest : public testing::Test {
 protected:
  ResumeTest() {
    std::mt19937 random(7);
    std::string array = lines_of(random, 0) + "[";
    for (int i = 0; i < 200; ++i) {
      array += std::string(i == 0 ? "" : ",\n") + R"({"text": "element", "other": []})";
    }
    test::write_file(folder_.path("a.jsonl"), lines_of(random, 500));
    test::write_file(folder_.path("b.jsonl.gz"), test::gzip_of(lines_of(random, 400)));
    test::write_file(folder_.path("c.json"), array + "]");
    test::write_file(folder_.path("d.jsonl"), "");
    test::write_file(folder_.path("e.jsonl"), lines_of(random, 300));
    for (const char* name : {"a.jsonl", "b.jsonl.gz", "c.json", "d.jsonl", "e.jsonl"}) {
      options_.inputs.push_back(folder_.path(name));
    }
    options_.json_keys = {"text", "other"};
    options_.append_eod = true;
    options_.on_error = OnError::kSkip;
    options_.chunk_bytes = 500;
    options_.output_prefix = folder_.path("whole/set");
    const auto whole = preprocess(options_, ByteTokenizer(), {});
    EXPECT_TRUE(whole.has_value());
    summary_ = *whole;
    options_.output_prefix = folder_.path("out/set");
    options_.resume = true;
    options_.checkpoint_interval = {};
  }

  /// All of a folder's files but the journal, by name.
  std::map<std::string, std::string> files(const std::string& folder) const {
    std::map<std::string, std::string> all;
    for (const auto& entry : fs::directory_iterator(folder_.path(folder))) {
      const std::string name = entry.path().filename();
      if (entry.is_regular_file()) all[name] = test::read_file(entry.path());
    }
    return all;
  }

  std::string journal() const { return folder_.path("out/set.resume/journal"); }

  Result<PreprocessSummary> run() { return preprocess(options_, ByteTokenizer(), {}); }

  std::string error() {
    const auto result = run();
    return result.has_value() ? "" : result.error().message();
  }

  /// Runs in a process that is killed at the text'th text; whether it was.
  bool killed_at(int64_t text) {
    const pid_t child = ::fork();
    if (child == 0) {
      const auto result = preprocess(options_, DeadlyTokenizer(text), {});
      ::_exit(result.has_value() ? 0 : 1);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    return WIFSIGNALED(status);
  }

  void expect_whole() {
    const auto result = run();
    ASSERT_TRUE(result.has_value()) << result.error().message();
    EXPECT_EQ(files("out"), files("whole"));
    EXPECT_EQ(result->documents, summary_.documents);
    EXPECT_EQ(result->tokens, summary_.tokens);
    EXPECT_EQ(result->input_bytes, summary_.input_bytes);
    EXPECT_EQ(result->blank_lines, summary_.blank_lines);
    EXPECT_EQ(result->skipped_lines, summary_.skipped_lines);
  }

  test::TempFolder folder_;
  PreprocessOptions options_;
  PreprocessSummary summary_;
};

TEST_F(ResumeTest, ContinuesWithTheSameBytesAfterEveryKill) {
  std::mt19937 random(1);
  int kills = 0;
  while (kills < 200) {
    fs::remove_all(folder_.path("out"));
    // One worker writes a checkpoint after every chunk; of several, some are killed in the middle.
    do {
      options_.workers = random() % 2 == 0 ? 1 : 4;
    } while (killed_at(1 + random() % 250) && ++kills > 0);
    expect_whole();
  }
}

TEST_F(ResumeTest, ContinuesAndDoesNotStartOver) {
  // Lines have three texts, the array's elements one; a chunk has fewer than 100.
  const int64_t texts = 3 * (summary_.documents - 200) + 200;
  ASSERT_TRUE(killed_at(1200));
  EXPECT_FALSE(killed_at(texts - 1100));
  expect_whole();
}

TEST_F(ResumeTest, DoesNothingWhereAllWasDone) {
  expect_whole();
  const auto written = fs::last_write_time(folder_.path("out/set_text_document.bin"));
  const auto again = run();
  ASSERT_TRUE(again.has_value());
  EXPECT_TRUE(again->was_finished);
  expect_whole();
  EXPECT_EQ(fs::last_write_time(folder_.path("out/set_text_document.bin")), written);
}

TEST_F(ResumeTest, PublishesTheRemainingOutputs) {
  expect_whole();
  for (const char* moved : {"set_text_document.idx", "set_other_document.idx",
                            "set_other_document.bin", "set_text_document.bin"}) {
    const std::string path = folder_.path("out/" + std::string(moved));
    fs::rename(path, path + ".resume");
    test::write_file(path + ".documents.resume", "left");
    if (path.ends_with(".bin")) fs::remove(path + ".documents.resume");
    expect_whole();
  }
}

TEST_F(ResumeTest, RefusesOutputsThatAreNotTheFinishedOnes) {
  expect_whole();
  const std::string bin = folder_.path("out/set_text_document.bin");
  const std::string content = test::read_file(bin);
  test::write_file(bin, content + "xx");
  EXPECT_THAT(error(), HasSubstr("set_text_document.bin: expected"));
  fs::remove(bin);
  EXPECT_THAT(error(),
              testing::ContainsRegex("set_text_document.bin: No such file or directory: .*"
                                     "/set.resume/journal says that the run is complete: remove "
                                     "it to start over"));
}

TEST_F(ResumeTest, NamesTheChange) {
  ASSERT_TRUE(killed_at(1200));
  const PreprocessOptions same = options_;
  options_.append_eod = false;
  EXPECT_THAT(error(), HasSubstr("append_eod true, this one has false"));
  options_ = same;
  options_.json_keys = {"text"};
  EXPECT_THAT(error(), HasSubstr("json_keys"));
  options_ = same;
  options_.dtype = DType::kInt32;
  EXPECT_THAT(error(), HasSubstr("dtype uint16, this one has int32"));
  options_ = same;
  options_.min_tokens = 5;
  EXPECT_THAT(error(), HasSubstr("min_tokens 0, this one has 5"));
  options_ = same;
  options_.resume_identity = {{"--vocab-file", "a"}};
  EXPECT_THAT(error(), HasSubstr("--vocab-file"));
  options_ = same;
  options_.inputs.pop_back();
  EXPECT_THAT(error(), HasSubstr("inputs 5, this one has 4"));
  options_ = same;
  options_.inputs[0] = folder_.path("e.jsonl");
  EXPECT_THAT(error(), HasSubstr("a.jsonl"));
  options_ = same;
  options_.workers = 3;  // changes no byte
  expect_whole();
}

TEST_F(ResumeTest, NamesAnInputThatChanged) {
  ASSERT_TRUE(killed_at(1200));
  const std::string path = options_.inputs[2];
  const auto time = fs::last_write_time(path);
  const std::string content = test::read_file(path);
  test::write_file(path, content + "\n");
  fs::last_write_time(path, time);
  EXPECT_THAT(error(), HasSubstr("c.json"));
  test::write_file(path, content);
  fs::last_write_time(path, time + std::chrono::seconds(1));
  EXPECT_THAT(error(), HasSubstr("c.json"));
  fs::last_write_time(path, time);
  expect_whole();
}

TEST_F(ResumeTest, RefusesADamagedJournal) {
  ASSERT_TRUE(killed_at(1200));
  const std::string whole = test::read_file(journal());
  for (size_t size = 0; size < whole.size(); ++size) {
    test::write_file(journal(), whole.substr(0, size));
    ASSERT_THAT(error(), HasSubstr("damaged")) << size;
  }
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ (1 << at % 8));
    test::write_file(journal(), flipped);
    ASSERT_THAT(error(), HasSubstr("damaged")) << at;
  }
  test::write_file(journal(), whole);
  expect_whole();
}

TEST_F(ResumeTest, RefusesPartialFilesThatAreShorterOrDiffer) {
  ASSERT_TRUE(killed_at(1200));
  for (const char* name : {"text_document.bin.resume", "text_document.idx.resume",
                           "other_document.idx.documents.resume"}) {
    const std::string path = folder_.path("out/set_" + std::string(name));
    const std::string whole = test::read_file(path);
    test::write_file(path, whole.substr(0, 40));
    EXPECT_THAT(error(), HasSubstr(name));
    test::write_file(path, whole);
  }
  const std::string path = folder_.path("out/set_text_document.idx.resume");
  std::string lengths = test::read_file(path);
  const std::string whole = lengths;
  ++lengths[34];
  test::write_file(path, lengths);
  EXPECT_THAT(error(), HasSubstr("text_document.idx.resume: expected"));
  test::write_file(path, whole);
  expect_whole();
}

TEST_F(ResumeTest, StartsOverWithoutTheJournal) {
  ASSERT_TRUE(killed_at(1200));
  fs::remove(journal());
  expect_whole();
}

TEST_F(ResumeTest, KeepsAnUnfinishedRunFromARunThatDoesNotResume) {
  ASSERT_TRUE(killed_at(1200));
  options_.resume = false;
  EXPECT_THAT(error(), HasSubstr("set.resume/journal: an unfinished run"));
  options_.resume = true;
  expect_whole();
  options_.resume = false;
  expect_whole();
  EXPECT_FALSE(fs::exists(fs::path(journal()).parent_path()));
}

TEST_F(ResumeTest, ContinuesAfterABadLineWasRemoved) {
  options_.on_error = OnError::kFail;
  EXPECT_THAT(error(), HasSubstr("a.jsonl: line"));
  const std::string first = error();
  EXPECT_EQ(error(), first);  // with the line's number, counted before it stopped
}

TEST_F(ResumeTest, StopsAfterMaxDocuments) {
  options_.max_documents = 700;
  options_.resume = false;
  options_.output_prefix = folder_.path("limited/set");
  ASSERT_TRUE(run().has_value());
  options_.resume = true;
  options_.output_prefix = folder_.path("out/set");
  while (killed_at(600)) {
  }
  ASSERT_TRUE(run().has_value());
  EXPECT_EQ(files("out"), files("limited"));
}

TEST_F(ResumeTest, CountsEachShortDocumentOnce) {
  options_.min_tokens = 30;
  options_.resume = false;
  options_.output_prefix = folder_.path("long/set");
  const auto whole = run();
  ASSERT_TRUE(whole.has_value()) << whole.error().message();
  EXPECT_GT(whole->short_documents, 300);
  EXPECT_EQ(whole->documents + whole->short_documents, summary_.documents);
  options_.resume = true;
  options_.output_prefix = folder_.path("out/set");
  while (killed_at(600)) {
  }
  const auto finished = run();
  ASSERT_TRUE(finished.has_value()) << finished.error().message();
  EXPECT_EQ(files("out"), files("long"));
  EXPECT_EQ(finished->documents, whole->documents);
  EXPECT_EQ(finished->short_documents, whole->short_documents);
}

TEST_F(ResumeTest, ResumesEveryShard) {
  for (const int64_t index : {0, 1, 2}) {
    options_.input.shard = {index, 3};
    options_.resume = false;
    options_.output_prefix = folder_.path("shards/set");
    ASSERT_TRUE(run().has_value());
    options_.resume = true;
    options_.output_prefix = folder_.path("out/set");
    while (killed_at(300)) {
    }
    ASSERT_TRUE(run().has_value());
  }
  std::map<std::string, std::string> found = files("out");
  std::erase_if(found, [](const auto& file) { return file.first.ends_with(".resume"); });
  EXPECT_EQ(found, files("shards"));
}

TEST_F(ResumeTest, RefusesWhatItCannotReadTwice) {
  options_.inputs.push_back("-");
  EXPECT_THAT(error(), HasSubstr("standard input"));
  options_.inputs.pop_back();
  options_.partitions = 2;
  EXPECT_THAT(error(), HasSubstr("`resume`: cannot be combined with `partitions`"));
}

}  // namespace
}  // namespace meg::preprocess
