// Every kind of input through preprocess(), in chunks of any size.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "libmeg/dataset/indexed_dataset.h"
#include "libmeg/preprocess/preprocess.h"
#include "tests/io/compressed.h"
#include "tests/preprocess/byte_tokenizer.h"
#include "tests/temp_folder.h"

namespace meg::preprocess {
namespace {

using test::TempFolder;
using test::write_file;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::MatchesRegex;

using Texts = std::vector<std::string>;

constexpr size_t kChunkSizes[] = {1, 2, 3, 5, 17, 100, 1 << 20};

/// The documents of a key, as texts.
Texts texts_in(const std::string& prefix, const std::string& key) {
  const auto set = dataset::IndexedDataset::open(prefix + "_" + key + "_document");
  EXPECT_TRUE(set.has_value()) << set.status().message();
  Texts texts;
  for (int64_t d = 0; set.has_value() && d < set->document_count(); ++d) {
    const dataset::SequenceRange range = set->document(d).value();
    std::string& text = texts.emplace_back();
    for (int64_t s = range.begin; s < range.end; ++s) {
      const auto ids = set->tokens<uint16_t>(s);
      for (const uint16_t id : *ids) text += static_cast<char>(id);
    }
  }
  return texts;
}

/// The documents that the options' inputs give, which must be the same for every size of chunks.
Texts read(PreprocessOptions options) {
  Texts first;
  for (const size_t chunk_bytes : kChunkSizes) {
    const TempFolder folder;
    options.output_prefix = folder.path("out");
    options.chunk_bytes = chunk_bytes;
    options.workers = chunk_bytes % 2 == 0 ? 1 : 3;
    const auto summary = preprocess(options, test::ByteTokenizer(), {});
    EXPECT_TRUE(summary.has_value()) << summary.error().message();
    if (!summary.has_value()) return {summary.error().message()};
    Texts texts;
    for (const std::string& key : options.json_keys) {
      for (std::string& text : texts_in(folder.path("out"), key)) texts.push_back(std::move(text));
    }
    if (chunk_bytes == kChunkSizes[0]) first = texts;
    EXPECT_EQ(texts, first) << "chunks of " << chunk_bytes;
  }
  return first;
}

/// What the inputs fail with, which must be the same for every size of chunks.
std::string failure(PreprocessOptions options) {
  std::string first;
  for (const size_t chunk_bytes : kChunkSizes) {
    const TempFolder folder;
    options.output_prefix = folder.path("out");
    options.chunk_bytes = chunk_bytes;
    options.workers = chunk_bytes % 2 == 0 ? 1 : 3;
    const auto summary = preprocess(options, test::ByteTokenizer(), {});
    const std::string message = summary.has_value() ? "" : summary.error().message();
    EXPECT_EQ(folder.file_count(), summary.has_value() ? 2 : 0);
    if (chunk_bytes == kChunkSizes[0]) first = message;
    EXPECT_EQ(message, first) << "chunks of " << chunk_bytes;
  }
  return first;
}

class InputFormats : public testing::Test {
 protected:
  PreprocessOptions file(const std::string& name, const std::string& content) {
    write_file(folder_.path(name), content);
    PreprocessOptions options;
    options.inputs = {folder_.path(name)};
    return options;
  }

  Texts csv(const std::string& content, const Texts& columns = {}) {
    PreprocessOptions options = file("in.csv", content);
    options.input.csv_columns = columns;
    return read(options);
  }

  std::string csv_failure(const std::string& content, const Texts& columns = {}) {
    PreprocessOptions options = file("in.csv", content);
    options.input.csv_columns = columns;
    return failure(options);
  }

  TempFolder folder_;
};

TEST_F(InputFormats, ReadsTheElementsOfAnArray) {
  const std::string array =
      "\n [ {\"text\": \"a}]\\\\\", \"x\": [{}]} ,\r\n{\n \"text\":\n\"b \\\" "
      "{\"\n}\n,{\"text\":\"\"}]\n ";
  EXPECT_THAT(read(file("in.jsonl", array)), ElementsAre("a}]\\", "b \" {", ""));
  EXPECT_THAT(read(file("in", "[]")), ElementsAre());
  EXPECT_THAT(read(file("in", " [\n] ")), ElementsAre());
  EXPECT_THAT(read(file("in", "\n\n{\"text\":\"a\"}\n")), ElementsAre("a"));
  EXPECT_THAT(read(file("in", "")), ElementsAre());
  EXPECT_THAT(read(file("in", " \n \n")), ElementsAre());
}

TEST_F(InputFormats, NamesTheLineAndByteInAnArray) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"[\"a\"]", "line 1, byte 2: expected a JSON object as the array's element"},
      {"[\n{\"text\":\"a\"},\n]", "line 3, byte 1: expected a JSON object"},
      {"[{\"text\":\"a\"} {\"text\":\"b\"}]", "line 1, byte 15: expected , or ]"},
      {"[{\"text\":\"a\"}]\n[", "line 2, byte 1: expected nothing after the array"},
      {"[{\"text\":\"a\"},\n{\"text\":\"b", "line 2, byte 11: expected ] or a further element"},
      {"[", "line 1, byte 2: expected ] or a further element"},
      {"[{\"text\":\"a\"},\n {\"x\":1,\n \"text\":5}]", "line 3, byte 9: "},
      {"[{\"text\":\"a\"},\n {\"x\":1}]", "line 2, byte "}};
  for (const auto& [array, expected] : cases) {
    EXPECT_THAT(failure(file("in", array)), HasSubstr(folder_.path("in") + ": " + expected))
        << array;
  }
}

TEST_F(InputFormats, ReadsTheColumnsOfACsv) {
  EXPECT_THAT(csv("id,content\r\n1,\"a, \"\"b\"\"\r\nc\"\r\n2,d\r\n3,\r\n", {"content"}),
              ElementsAre("a, \"b\"\r\nc", "d", ""));
  EXPECT_THAT(csv("\xef\xbb\xbftext\na\n\n\"b\"\r\rc"), ElementsAre("a", "b", "c"));
  EXPECT_THAT(csv("x,y\nz,\"w\"", {"1"}), ElementsAre("y", "w"));
  EXPECT_THAT(csv("a\"b,\"c\"\"\n\"\n", {"0"}), ElementsAre("a\"b"));
  EXPECT_THAT(csv("text,\"a \"\"name\"\"\"\n1,2\n", {"a \"name\""}), ElementsAre("2"));
  EXPECT_THAT(csv(""), ElementsAre());
  PreprocessOptions two = file("in.csv", "b,a\n1,2\n3,4\n");
  two.json_keys = {"a", "b"};
  EXPECT_THAT(read(two), ElementsAre("2", "4", "1", "3"));
  two.input.csv_columns = {"1", "0"};
  two.input.csv_has_header = true;
  EXPECT_THAT(read(two), ElementsAre("2", "4", "1", "3"));
}

TEST_F(InputFormats, RefusesWhatIsNoCsv) {
  EXPECT_THAT(csv_failure("id,content\n1,2\n"),
              HasSubstr("in.csv: line 1, byte 1: expected a column "
                        "text, found 2 columns: id, content"));
  EXPECT_THAT(
      csv_failure("id;text\n1;2\n"),
      HasSubstr("expected a column text, found one: id;text; fields are separated by commas"));
  EXPECT_THAT(csv_failure(std::string(1000, 'x') + ",b\n1,2\n"),
              HasSubstr("found 2 columns: " + std::string(300, 'x') + "..."));
  EXPECT_THAT(csv_failure("a,a\n1,2\n", {"a"}), HasSubstr("expected one column a, found several"));
  EXPECT_THAT(csv_failure("1,2\n", {"2"}), HasSubstr("expected a column 2, found 2 columns"));
  EXPECT_THAT(csv_failure("text,b\n1,2\n\"x\n\",2\n1,2,3\n"),
              HasSubstr("line 5, byte 1: expected 2 fields as in the first row, found 3"));
  EXPECT_THAT(csv_failure("text\n\"open\n\nend"),
              HasSubstr("line 2, byte 1: expected a row whose quotes are closed"));
  EXPECT_THAT(csv_failure("b,text\n1,\"x\"y\n"), HasSubstr("line 2, byte 3: expected a comma"));
  EXPECT_THAT(csv_failure("text\na\n\xff\n"), HasSubstr("line 3, byte 1: expected UTF-8"));
  EXPECT_THAT(csv_failure("a,b\n1,2\n", {"a", "b"}),
              HasSubstr("`csv_columns`: expected one for each"));
}

TEST_F(InputFormats, ReadsPlainTextByFileLineOrSeparator) {
  PreprocessOptions txt = file("in.txt",
                               "\xef\xbb\xbf"
                               "one\r\ntwo\n\n---\nthree\n---\n \n---\n");
  EXPECT_THAT(read(txt), ElementsAre("one\r\ntwo\n\n---\nthree\n---\n \n---\n"));
  txt.input.txt_document = TxtDocument::kSeparated;
  txt.input.txt_separator = "\n---\n";
  EXPECT_THAT(read(txt), ElementsAre("one\r\ntwo\n", "three"));
  txt.input.txt_separator = "not there";
  EXPECT_EQ(read(txt).size(), 1U);
  write_file(txt.inputs[0], "one\r\ntwo\n\n \nthree");
  txt.input.txt_document = TxtDocument::kLine;
  txt.input.txt_separator.clear();
  EXPECT_THAT(read(txt), ElementsAre("one", "two", "three"));
  write_file(txt.inputs[0],
             "\xef\xbb\xbf"
             "one\n\xef\xbb\xbftwo\n");
  EXPECT_THAT(read(txt), ElementsAre("one", "\xef\xbb\xbftwo")) << "a mark comes once";
  write_file(txt.inputs[0], "one\ntwo \xff\n");
  EXPECT_THAT(failure(txt), HasSubstr("in.txt: line 2, byte 5: expected UTF-8"));
  txt.input.txt_document = TxtDocument::kFile;
  EXPECT_THAT(failure(txt), HasSubstr("in.txt: line 2, byte 5: expected UTF-8"));
  txt.json_keys = {"a", "b"};
  EXPECT_THAT(failure(txt), HasSubstr("expected one JSON key"));
}

TEST_F(InputFormats, RefusesJsonUnderTheNameOfPlainText) {
  PreprocessOptions options = file("in.txt", "\n{\"text\":\"a\"}\n");
  EXPECT_THAT(failure(options), HasSubstr("its name says plain text, but its first byte JSON"));
  options.input.txt_document = TxtDocument::kLine;
  EXPECT_THAT(failure(options), HasSubstr("its name says plain text, but its first byte JSON"));
  options.input = InputOptions();
  options.input.format = InputFormat::kJson;
  EXPECT_THAT(read(options), ElementsAre("a"));
  EXPECT_THAT(failure(file("in.parquet.gz", "x")), HasSubstr("its name says Parquet or Arrow"));
}

TEST_F(InputFormats, CompressedInputsGiveTheSame) {
  const std::vector<std::pair<std::string, std::string>> inputs = {
      {"a.jsonl", "{\"text\":\"x\"}\n{\"text\":\"yy\"}\n"},
      {"a.json", "[{\"text\":\"x\"},\n{\"text\":\"yy\"}]"},
      {"a.csv", "id,text\n1,x\n2,yy\n"},
      {"a.txt", "x\nyy"}};
  for (const auto& [name, content] : inputs) {
    const Texts plain = read(file(name, content));
    for (const char* const ending : {".gz", ".zst", ".xz", ""}) {
      for (const auto compress : test::kCompressors) {
        const std::string cut = compress(content.substr(0, 3)) + compress(content.substr(3));
        EXPECT_EQ(read(file(name + ending, cut)), plain) << name << ending;
      }
    }
  }
  const std::string packed = test::gzip_of(inputs[0].second);
  EXPECT_THAT(failure(file("cut", packed.substr(0, packed.size() - 3))),
              HasSubstr("cut: the compressed data ends in the middle"));
}

TEST_F(InputFormats, AnEarlierBadLineCountsBeforeALaterDamage) {
  std::string packed = test::gzip_of("{\"text\":\"a\"}\n{\"text\":5}\n{\"text\":\"c\"}\n");
  packed.resize(packed.size() - 1);
  EXPECT_THAT(failure(file("in", packed)), HasSubstr("line 2, byte "));
  const std::string array =
      test::gzip_of("[{\"text\":\"a\"},\n{\"text\":5},\n{\"text\":\"c\"} {}]");
  EXPECT_THAT(failure(file("in", array)), HasSubstr("line 2, byte "));
}

TEST_F(InputFormats, ReadsTheFilesOfAFolderSortedByName) {
  const TempFolder parts;
  std::filesystem::create_directory(parts.path("sub"));
  write_file(parts.path("10.csv"), "content\nten\n");
  write_file(parts.path("2.csv"), "id,content\n1,two\n");
  write_file(parts.path(".hidden"), "no");
  PreprocessOptions options;
  options.inputs = {parts.path()};
  options.input.csv_columns = {"content"};
  EXPECT_THAT(read(options), ElementsAre("ten", "two"));
  options.inputs = {parts.path("sub")};
  EXPECT_THAT(failure(options), HasSubstr("sub: no file in this folder"));
}

TEST_F(InputFormats, StopsAfterMaxDocuments) {
  PreprocessOptions options =
      file("in", "{\"text\":\"a\"}\n\n{\"text\":\"\"}\n{\"text\":\"c\"}\nbad\n");
  EXPECT_NE(failure(options), "");
  options.max_documents = 4;
  EXPECT_NE(failure(options), "");
  for (const int64_t count : {1, 2, 3}) {
    options.max_documents = count;
    const Texts all = {"a", "", "c"};
    EXPECT_EQ(read(options), Texts(all.begin(), all.begin() + count));
  }
  options.partitions = 2;
  EXPECT_THAT(failure(options), HasSubstr("`max_documents`: "));
}

TEST_F(InputFormats, APipeOrFolderThatNoInputNamesIsRefused) {
  const TempFolder parts;
  write_file(parts.path("a.jsonl"), "{\"text\":\"a\"}\n");
  ASSERT_EQ(::mkfifo(parts.path("b.jsonl").c_str(), 0600), 0);
  std::filesystem::create_symlink("b.jsonl", parts.path("c.jsonl"));
  std::filesystem::create_symlink("/dev/zero", parts.path("d.jsonl"));
  std::filesystem::create_directory(parts.path("e"));
  PreprocessOptions options = file("in", "");
  for (const auto& [input, found] :
       {std::pair("", "/b.jsonl: expected a file, found a pipe"),
        std::pair("/b*", "/b.jsonl: expected a file, found a pipe"),
        std::pair("/c*", "/c.jsonl: expected a file, found a pipe"),
        std::pair("/d*", "/d.jsonl: expected a file, found a device"),
        std::pair("/e*", "/e: expected a file, found a folder, which is only read if")}) {
    options.inputs = {parts.path() + input};
    EXPECT_THAT(failure(options), HasSubstr(found)) << input;
  }
  for (const char* name : {"b.jsonl", "c.jsonl", "d.jsonl"}) {
    std::filesystem::remove(parts.path(name));
  }
  options.inputs = {parts.path()};
  EXPECT_EQ(failure(options), "");
}

TEST_F(InputFormats, MaxDocumentsEndsAnEndlessPipe) {
  const std::string pipe = folder_.path("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const int writer = ::open(pipe.c_str(), O_RDWR);
  ASSERT_EQ(::write(writer, "{\"text\":\"a\"}\n{\"text\":\"b\"}\n{", 27), 27);
  PreprocessOptions options;
  options.inputs = {pipe};
  options.output_prefix = folder_.path("out");
  options.max_documents = 2;
  options.workers = 3;
  options.chunk_bytes = 13;
  const auto summary = preprocess(options, test::ByteTokenizer(), {});
  ::close(writer);
  ASSERT_TRUE(summary.has_value()) << summary.error().message();
  EXPECT_THAT(texts_in(folder_.path("out"), "text"), ElementsAre("a", "b"));
}

/// Files of every format; what all of them give, and the same from any number of shards.
TEST_F(InputFormats, ShardsTogetherGiveTheSame) {
  const auto line = [](int i) {
    return fmt::format("{{\"text\":\"{}\"}}",
                       std::string(1 + i % 7, static_cast<char>('a' + i % 26)));
  };
  std::string lines, crs, array = "[";
  for (int i = 0; i < 40; ++i) {
    lines += line(i) + (i % 3 == 0 ? "\r\n" : "\n") + (i % 11 == 0 ? "\n" : "");
    crs += line(i) + "\r";
    array += i == 0 ? "" : ",";
    array += line(i);
  }
  const std::vector<std::pair<std::string, std::string>> files = {{"a.jsonl", lines},
                                                                  {"b.jsonl", ""},
                                                                  {"c.jsonl", crs},
                                                                  {"d.json", array + "]"},
                                                                  {"e.gz", test::gzip_of(lines)},
                                                                  {"f.csv", "text\nx\ny\n"},
                                                                  {"g.jsonl", line(1)}};
  for (const auto& [name, content] : files) write_file(folder_.path(name), content);
  PreprocessOptions options;
  options.inputs = {folder_.path("*")};
  const Texts whole = read(options);
  EXPECT_GT(whole.size(), 160U);
  for (const int64_t count : {2, 3, 7, 50}) {
    Texts together;
    for (int64_t index = 0; index < count; ++index) {
      const TempFolder out;
      options.output_prefix = out.path("out");
      options.input.shard = {index, count};
      options.chunk_bytes = static_cast<size_t>(10 + 30 * index);
      const auto summary = preprocess(options, test::ByteTokenizer(), {});
      ASSERT_TRUE(summary.has_value()) << summary.error().message();
      for (std::string& text :
           texts_in(out.path(fmt::format("out_shard{:05}of{:05}", index, count)), "text")) {
        together.push_back(std::move(text));
      }
    }
    EXPECT_EQ(together, whole) << count << " shards";
  }
}

TEST_F(InputFormats, ErrorsOfAShardNameTheFilesLine) {
  PreprocessOptions options =
      file("in", "{\"text\":\"a\"}\n{\"text\":\"b\"}\n{\"text\":\"c\"}\n{\"text\":5}\n");
  options.input.shard = {1, 2};
  EXPECT_THAT(failure(options), HasSubstr("in: line 4, byte "));
  options.input.shard = {2, 2};
  EXPECT_THAT(failure(options), HasSubstr("shard: expected 0 <= index < count"));
  options.input.shard = {0, 2};
  options.partitions = 2;
  EXPECT_THAT(failure(options), HasSubstr("`shard`: cannot be combined with `partitions`"));
  options.partitions = 1;
  options.inputs = {"/dev/stdin", "-"};
  EXPECT_THAT(failure(options), HasSubstr("found a pipe"));
}

TEST_F(InputFormats, KeepsTheOrderOfPartitionsForEveryFormat) {
  PreprocessOptions options = file("in.csv", "text\na\nb\nc\nd\ne\n");
  options.partitions = 2;
  options.dealing = Dealing::kBlocks;
  EXPECT_THAT(read(options), ElementsAre("a", "b", "c", "d", "e"));
  options.dealing = Dealing::kRoundRobin;
  EXPECT_THAT(read(options), ElementsAre("a", "c", "e", "b", "d"));
}

}  // namespace
}  // namespace meg::preprocess
