#include "libmeg/preprocess/preprocess.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "libmeg/base/bytes.h"
#include "tests/preprocess/byte_tokenizer.h"
#include "tests/small_filesystem.h"
#include "tests/temp_folder.h"

namespace meg::preprocess {
namespace {

using test::ByteTokenizer;
using testing::ElementsAre;
using testing::HasSubstr;

/// What a dataset says, with ids as characters; '$' is the end token.
struct Content {
  std::string tokens;
  std::vector<int32_t> lengths;
  std::vector<int64_t> documents;
};

Content read_dataset(const std::string& prefix) {
  Content content;
  const std::string bin = test::read_file(prefix + ".bin");
  for (size_t i = 0; i < bin.size(); i += 2) {
    const auto id = load_le<uint16_t>(&bin[i]);
    content.tokens += id == 256 ? '$' : static_cast<char>(id);
  }
  const std::string idx = test::read_file(prefix + ".idx");
  if (idx.size() < 34) return content;
  const auto sequences = load_le<uint64_t>(&idx[18]);
  const auto documents = load_le<uint64_t>(&idx[26]);
  for (size_t i = 0; i < sequences; ++i)
    content.lengths.push_back(load_le<int32_t>(&idx[34 + 4 * i]));
  for (size_t i = 0; i < documents; ++i) {
    content.documents.push_back(load_le<int64_t>(&idx[34 + 12 * sequences + 8 * i]));
  }
  return content;
}

class PreprocessTest : public testing::Test {
 protected:
  PreprocessTest() {
    options_.inputs = {folder_.path("in.jsonl")};
    options_.output_prefix = folder_.path("out/set");
  }

  void write_input(const std::string& lines) { test::write_file(options_.inputs[0], lines); }

  Result<PreprocessSummary> run(const ProgressCallback& progress = {}) {
    return preprocess(options_, tokenizer_, progress);
  }

  std::string error() {
    const auto result = run();
    return result.has_value() ? "" : result.error().message();
  }

  Content output(const std::string& key = "text") const {
    return read_dataset(options_.output_prefix + "_" + key + "_document");
  }

  std::vector<std::string> files_left() const {
    std::vector<std::string> names;
    std::error_code missing;  // a run that failed takes the folder away as well
    const std::string folder = folder_.path("out");
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder, missing)) {
      names.push_back(entry.path().filename());
    }
    return names;
  }

  test::TempFolder folder_;
  ByteTokenizer tokenizer_;
  PreprocessOptions options_;
};

TEST_F(PreprocessTest, OneSequenceADocument) {
  write_input("{\"text\": \"ab\"}\n{\"text\": \"c\"}\n");
  const auto summary = run();
  ASSERT_TRUE(summary.has_value()) << summary.error().message();
  EXPECT_EQ(output().tokens, "abc");
  EXPECT_THAT(output().lengths, ElementsAre(2, 1));
  EXPECT_THAT(output().documents, ElementsAre(0, 1, 2));
  EXPECT_EQ(summary->documents, 2);
  EXPECT_EQ(summary->tokens, 3);
  EXPECT_EQ(summary->text_bytes, 3);
  EXPECT_EQ(summary->input_bytes, 29);
}

TEST_F(PreprocessTest, EndTokenCountsInTheLastSequence) {
  options_.append_eod = true;
  write_input("{\"text\": [\"ab\", \"\", \"c\", \"\"]}\n{\"text\": \"\"}\n{\"text\": \"d\"}");
  ASSERT_TRUE(run().has_value());
  EXPECT_EQ(output().tokens, "abc$d$");
  EXPECT_THAT(output().lengths, ElementsAre(2, 2, 2));
  EXPECT_THAT(output().documents, ElementsAre(0, 2, 2, 3));
}

TEST_F(PreprocessTest, EmptyDocumentsAreSkippedForEachKeyAlone) {
  options_.skip_empty_documents = true;
  options_.json_keys = {"title", "text"};
  write_input("{\"text\": \"\", \"title\": \"t\"}\n{\"text\": \"x\", \"title\": \"\"}\n");
  ASSERT_TRUE(run().has_value());
  EXPECT_THAT(output("title").documents, ElementsAre(0, 1));
  EXPECT_EQ(output("title").tokens, "t");
  EXPECT_THAT(output("text").documents, ElementsAre(0, 1));
  EXPECT_EQ(output("text").tokens, "x");
}

TEST_F(PreprocessTest, ShortDocumentsAreLeftOutWhateverEndsThem) {
  options_.append_eod = true;
  options_.min_tokens = 3;
  write_input(
      "{\"text\": \"ab\"}\n{\"text\": \"cde\"}\n{\"text\": [\"f\", \"\", \"gh\"]}\n"
      "{\"text\": \"\"}\n{\"text\": [\"i\", \"j\"]}\n{\"text\": \"klmn\"}\n");
  const auto summary = run();
  ASSERT_TRUE(summary.has_value()) << summary.error().message();
  EXPECT_EQ(output().tokens, "cde$fgh$klmn$");
  EXPECT_THAT(output().lengths, ElementsAre(4, 1, 3, 5));
  EXPECT_THAT(output().documents, ElementsAre(0, 1, 3, 4));
  EXPECT_EQ(summary->documents, 3);
  EXPECT_EQ(summary->short_documents, 3);
  EXPECT_EQ(summary->tokens, 13);
}

TEST_F(PreprocessTest, KeysCountTogetherAndStayAligned) {
  options_.json_keys = {"title", "text"};
  options_.min_tokens = 4;
  write_input(
      "{\"title\": \"a\", \"text\": \"bcd\"}\n{\"title\": \"ef\", \"text\": \"g\"}\n"
      "{\"title\": \"\", \"text\": \"hijk\"}\n");
  const auto summary = run();
  ASSERT_TRUE(summary.has_value()) << summary.error().message();
  EXPECT_EQ(output("title").tokens, "a");
  EXPECT_THAT(output("title").documents, ElementsAre(0, 1, 1));
  EXPECT_EQ(output("text").tokens, "bcdhijk");
  EXPECT_EQ(summary->short_documents, 1);
}

TEST_F(PreprocessTest, ShortDocumentsDoNotCountForMaxDocuments) {
  options_.min_tokens = 2;
  options_.max_documents = 2;
  write_input(
      "{\"text\": \"a\"}\n{\"text\": \"bbb\"}\n{\"text\": \"c\"}\n{\"text\": \"ddd\"}\n"
      "{\"text\": \"e\"}\n{\"text\": \"fff\"}\n");
  for (const size_t chunk : {1, 20, 40, 1 << 20}) {
    options_.chunk_bytes = chunk;
    const auto summary = run();
    ASSERT_TRUE(summary.has_value()) << summary.error().message();
    EXPECT_EQ(output().tokens, "bbbddd");
    EXPECT_EQ(summary->documents, 2);
    EXPECT_EQ(summary->short_documents, 2) << "up to the last document, chunk " << chunk;
  }
}

TEST_F(PreprocessTest, BlankLinesAreSkippedAndCounted) {
  write_input("\n{\"text\": \"a\"}\r\n \t\n\r{\"text\": \"b\"}\n\n");
  const auto summary = run();
  ASSERT_TRUE(summary.has_value()) << summary.error().message();
  EXPECT_EQ(summary->blank_lines, 4);
  EXPECT_EQ(summary->documents, 2);
  EXPECT_EQ(output().tokens, "ab");
}

TEST_F(PreprocessTest, BytesDoNotDependOnWorkersOrChunks) {
  std::string lines;
  for (int i = 0; i < 500; ++i) {
    lines +=
        fmt::format("{{\"text\": [\"{}\", \"{}\"], \"n\": {}}}\n", i, std::string(i % 37, 'x'), i);
  }
  write_input(lines);
  options_.min_tokens = 9;
  ASSERT_TRUE(run().has_value());
  const std::string prefix = options_.output_prefix + "_text_document";
  const std::string bin = test::read_file(prefix + ".bin");
  const std::string idx = test::read_file(prefix + ".idx");
  for (const int workers : {1, 2, 5}) {
    for (const size_t chunk : {1, 64, 1000}) {
      options_.workers = workers;
      options_.chunk_bytes = chunk;
      ASSERT_TRUE(run().has_value());
      EXPECT_EQ(test::read_file(prefix + ".bin"), bin) << workers << " workers, chunk " << chunk;
      EXPECT_EQ(test::read_file(prefix + ".idx"), idx) << workers << " workers, chunk " << chunk;
    }
  }
}

TEST_F(PreprocessTest, ASlowChunkKeepsItsPlace) {
  std::string lines;
  std::string expected;
  for (int i = 0; i < 200; ++i) {
    const std::string text =
        fmt::format("{} {}", i, i % 20 == 3 ? ByteTokenizer::kSlow : std::string_view());
    lines += "{\"text\": \"" + text + "\"}\n";
    expected += text;
  }
  write_input(lines);
  options_.chunk_bytes = 1;
  for (const int workers : {1, 2, 6}) {
    options_.workers = workers;
    ASSERT_TRUE(run().has_value());
    EXPECT_EQ(output().tokens, expected) << workers << " workers";
  }
}

TEST_F(PreprocessTest, CancelledWorkStopsEarly) {
  std::string lines;
  for (int i = 0; i < 100'000; ++i) {
    lines += "{\"text\": \"" + std::string(ByteTokenizer::kSlow) + "\"}\n";
  }
  write_input(lines);
  options_.chunk_bytes = 1;
  options_.workers = 2;
  int calls = 0;
  Progress last;
  const auto result = run([&](const Progress& progress) {
    last = progress;
    return ++calls < 3;
  });
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code(), StatusCode::kCancelled);
  EXPECT_LT(last.documents, 100'000);
  EXPECT_THAT(files_left(), ElementsAre());
}

TEST_F(PreprocessTest, ReportsTheFirstErrorOfTheInput) {
  std::string lines;
  for (int i = 0; i < 300; ++i) lines += "{\"text\": \"good\"}\n";
  test::write_file(folder_.path("good.jsonl"), lines);
  write_input(lines + "\n{\"text\": 1}\n" + lines + "{bad\n");
  options_.inputs.insert(options_.inputs.begin(), folder_.path("good.jsonl"));
  for (const int workers : {1, 2, 7}) {
    for (const size_t chunk : {10, 300, 1 << 20}) {
      options_.workers = workers;
      options_.chunk_bytes = chunk;
      EXPECT_THAT(error(), HasSubstr("in.jsonl: line 302, byte ")) << workers << " " << chunk;
      EXPECT_THAT(files_left(), ElementsAre());
    }
  }
}

TEST_F(PreprocessTest, SkipsBadLinesForEveryKeyAndReportsTheFirst) {
  options_.on_error = OnError::kSkip;
  options_.json_keys = {"a", "b"};
  options_.chunk_bytes = 1;
  options_.workers = 3;
  std::string lines = "{\"a\": \"x\", \"b\": \"y\"}\n";
  for (int i = 0; i < 10; ++i) lines += "{\"a\": \"x\"}\n";
  write_input(lines + "{\"b\": \"z\", \"a\": \"w\"}\n");
  const auto summary = run();
  ASSERT_TRUE(summary.has_value()) << summary.error().message();
  EXPECT_EQ(summary->skipped_lines, 10);
  EXPECT_EQ(summary->documents, 2);
  ASSERT_EQ(summary->skipped_examples.size(), 5);
  EXPECT_THAT(summary->skipped_examples[0], HasSubstr("in.jsonl: line 2, byte "));
  EXPECT_THAT(summary->skipped_examples[4], HasSubstr("in.jsonl: line 6, byte "));
  EXPECT_EQ(output("a").tokens, "xw");
  EXPECT_EQ(output("b").tokens, "yz");
}

TEST_F(PreprocessTest, EmptyInputGivesAnEmptyDataset) {
  write_input("");
  ASSERT_TRUE(run().has_value());
  EXPECT_EQ(std::filesystem::file_size(options_.output_prefix + "_text_document.idx"), 42);
  EXPECT_EQ(std::filesystem::file_size(options_.output_prefix + "_text_document.bin"), 0);
}

TEST_F(PreprocessTest, CancelledWorkLeavesNothing) {
  write_input("{\"text\": \"a\"}\n");
  const auto result = run([](const Progress&) { return false; });
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code(), StatusCode::kCancelled);
  EXPECT_THAT(files_left(), ElementsAre());
}

TEST_F(PreprocessTest, ProgressEndsWithEverything) {
  write_input("{\"text\": \"a\"}\n{\"text\": \"bc\"}\n");
  Progress last;
  ASSERT_TRUE(run([&last](const Progress& progress) {
                last = progress;
                return true;
              }).has_value());
  EXPECT_EQ(last.documents, 2);
  EXPECT_EQ(last.tokens, 3);
  EXPECT_EQ(last.bytes, 29);
  EXPECT_EQ(last.total_bytes, 29);
}

TEST_F(PreprocessTest, OutOfMemoryIsAnError) {
  write_input("{\"text\": \"" + std::string(ByteTokenizer::kOutOfMemory) + "\"}\n");
  const auto result = run();
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(files_left(), ElementsAre());
}

TEST_F(PreprocessTest, WarnsWhereNoMergeWasUsed) {
  options_.append_eod = true;
  std::string lines;
  for (int i = 0; i < 1000; ++i) lines += "{\"text\": \"" + std::string(1000, 'a') + "\"}\n";
  write_input(lines);
  const auto summary = run();
  ASSERT_TRUE(summary.has_value());
  EXPECT_THAT(summary->warnings, ElementsAre(HasSubstr("1.00 tokens per byte")));
}

TEST_F(PreprocessTest, LargeVocabulariesAreWrittenAsInt32) {
  tokenizer_ = ByteTokenizer(65500, 65500);
  options_.append_eod = true;
  write_input("{\"text\": \"a\"}\n");
  ASSERT_TRUE(run().has_value());
  EXPECT_EQ(test::read_file(options_.output_prefix + "_text_document.bin"),
            std::string("a\0\0\0\xdc\xff\0\0", 8));
}

TEST_F(PreprocessTest, RefusesIdsThatTheDtypeCannotHold) {
  tokenizer_ = ByteTokenizer(65536, 100);
  write_input("{\"text\": \"a\"}\n");
  EXPECT_EQ(error(), "`dtype` uint16: expected ids up to 65535, found 65536");
}

TEST_F(PreprocessTest, RefusesAKeyTwice) {
  options_.json_keys = {"text", "title", "text"};
  EXPECT_EQ(error(), "`json_keys`: found text twice");
}

TEST_F(PreprocessTest, AppendEodNeedsAnEndToken) {
  tokenizer_ = ByteTokenizer(std::nullopt);
  options_.append_eod = true;
  EXPECT_EQ(error(), "`append_eod`: the vocabulary has no end-of-document token");
}

TEST_F(PreprocessTest, PartitionsAreDealtRoundRobinAndMergedInOrder) {
  options_.partitions = 2;
  options_.append_eod = true;
  options_.chunk_bytes = 20;
  options_.workers = 2;
  write_input(
      "{\"text\": \"a\"}\n{\"text\": \"b\"}\n\n{\"text\": \"c\"}\n{\"text\": \"d\"}\n{\"text\": "
      "\"e\"}\n");
  ASSERT_TRUE(run().has_value());
  EXPECT_EQ(read_dataset(options_.output_prefix + "_0_text_document").tokens, "a$c$e$");
  EXPECT_EQ(read_dataset(options_.output_prefix + "_1_text_document").tokens, "b$d$");
  EXPECT_EQ(output().tokens, "a$c$e$b$d$");
  EXPECT_THAT(output().documents, ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST_F(PreprocessTest, SequentialPartitionsKeepTheOrder) {
  options_.partitions = 3;
  options_.dealing = Dealing::kBlocks;
  options_.chunk_bytes = 30;
  write_input("{\"text\": \"a\"}\n{\"text\": \"b\"}\n{\"text\": \"c\"}\n{\"text\": \"d\"}\n");
  ASSERT_TRUE(run().has_value());
  EXPECT_EQ(read_dataset(options_.output_prefix + "_0_text_document").tokens, "ab");
  EXPECT_EQ(read_dataset(options_.output_prefix + "_1_text_document").tokens, "cd");
  EXPECT_EQ(read_dataset(options_.output_prefix + "_2_text_document").tokens, "");
  EXPECT_EQ(output().tokens, "abcd");
}

TEST_F(PreprocessTest, PartitionsAreDealtTheDocumentsThatAreNotTooShort) {
  options_.partitions = 2;
  options_.min_tokens = 2;
  options_.chunk_bytes = 20;
  write_input(
      "{\"text\": \"a\"}\n{\"text\": \"bb\"}\n{\"text\": \"c\"}\n{\"text\": \"dd\"}\n"
      "{\"text\": \"ee\"}\n");
  ASSERT_TRUE(run().has_value());
  EXPECT_EQ(read_dataset(options_.output_prefix + "_0_text_document").tokens, "bbee");
  EXPECT_EQ(read_dataset(options_.output_prefix + "_1_text_document").tokens, "dd");
  options_.dealing = Dealing::kBlocks;  // of three of the input's documents
  ASSERT_TRUE(run().has_value());
  EXPECT_EQ(read_dataset(options_.output_prefix + "_0_text_document").tokens, "bbddee");
  EXPECT_EQ(read_dataset(options_.output_prefix + "_1_text_document").tokens, "");
  EXPECT_EQ(output().tokens, "bbddee");
}

TEST_F(PreprocessTest, CancelledCountingReadsNoFurther) {
  options_.partitions = 2;
  options_.dealing = Dealing::kBlocks;
  write_input("{\"text\": \"a\"}\n");
  const auto result = run([](const Progress&) { return false; });
  EXPECT_EQ(result.status().code(), StatusCode::kCancelled);
  EXPECT_FALSE(std::filesystem::exists(folder_.path("out")));
}

TEST_F(PreprocessTest, CancelledMergingLeavesNothing) {
  options_.partitions = 2;
  write_input("{\"text\": \"" + std::string(3 << 20, 'a') + "\"}\n{\"text\": \"b\"}\n");
  bool merging = false;
  const auto result = run([&](const Progress&) {
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path("out"))) {
      const bool is_merged = entry.path().filename().string().starts_with("set_text_document.bin");
      merging = merging || (is_merged && entry.file_size() > 0);
    }
    return !merging;
  });
  EXPECT_TRUE(merging);
  EXPECT_EQ(result.status().code(), StatusCode::kCancelled);
  EXPECT_THAT(files_left(), ElementsAre());
}

// The limit ends the work before the last chunk is written.
TEST_F(PreprocessTest, AFullDiskIsNamedBehindTheLastOfMaxDocuments) {
  write_input("{\"text\": \"" + std::string(200'000, 'a') + "\"}\n{\"text\": \"b\"}\n");
  options_.max_documents = 1;
  ASSERT_TRUE(std::filesystem::create_directory(folder_.path("out")));
  const bool is_mounted =
      test::in_small_filesystem(folder_.path("out"), "size=64k", [&]() -> std::string {
        const std::string found = error();
        return found.find("No space left on device") != found.npos ? "" : "found: " + found;
      });
  if (!is_mounted) GTEST_SKIP() << "mounting is not allowed";
}

TEST_F(PreprocessTest, WaitingForTheWriterOfAPipeCanBeCancelled) {
  ASSERT_EQ(::mkfifo(options_.inputs[0].c_str(), 0600), 0);
  int calls = 0;
  const auto result = run([&calls](const Progress&) { return ++calls < 3; });
  EXPECT_EQ(result.status().code(), StatusCode::kCancelled);
  EXPECT_THAT(files_left(), ElementsAre());
}

}  // namespace
}  // namespace meg::preprocess
