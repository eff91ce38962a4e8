#include "libmeg/preprocess/sources/internal/text_source.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "libmeg/text/line_ends.h"
#include "libmeg/text/text_padding.h"
#include "libmeg/tokenizer/interface/tokenizer.h"
#include "tests/io/compressed.h"
#include "tests/temp_folder.h"
#include "tests/text/plain_lines.h"

namespace meg::preprocess {
namespace {

using test::plain_lines;
using testing::ElementsAre;
using testing::HasSubstr;

using Lines = std::vector<std::string>;

void append_lines(std::string_view text, Lines& lines) {
  std::string_view line;
  while (text::take_line(text, line)) lines.emplace_back(line);
}

/// All lines in order, with checks of each chunk's number, offset and padding.
Lines drain(TextSource& source) {
  Lines lines;
  TextChunk chunk;
  std::map<int, int64_t> offsets;
  for (int64_t number = 0;; ++number) {
    const auto more = source.next(chunk);
    EXPECT_TRUE(more.has_value()) << more.status().message();
    if (!more.has_value() || !*more) return lines;
    EXPECT_EQ(chunk.number, number);
    EXPECT_EQ(chunk.offset, offsets[chunk.input]);
    offsets[chunk.input] += static_cast<int64_t>(chunk.lines.size());
    EXPECT_FALSE(chunk.lines.empty());
    EXPECT_EQ(chunk.lines.data(), chunk.buffer.get());
    EXPECT_LE(chunk.lines.size() + text::kTextPadding, chunk.capacity);
    append_lines(chunk.lines, lines);
  }
}

Lines read_lines(const std::vector<std::string>& inputs, size_t chunk_bytes) {
  auto source = TextSource::open(inputs, chunk_bytes);
  EXPECT_TRUE(source.has_value()) << source.status().message();
  return source.has_value() ? drain(*source) : Lines();
}

/// The lines of `text` where it comes through a pipe.
Lines read_piped_lines(const std::string& text, size_t chunk_bytes) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  std::thread writer([&] {
    size_t done = 0;
    while (done < text.size()) {
      const ssize_t wrote = ::write(ends[1], text.data() + done, text.size() - done);
      if (wrote <= 0) break;
      done += static_cast<size_t>(wrote);
    }
    ::close(ends[1]);
  });
  Lines lines = read_lines({"/dev/fd/" + std::to_string(ends[0])}, chunk_bytes);
  ::close(ends[0]);
  writer.join();
  return lines;
}

Status error_of(const std::vector<std::string>& inputs) {
  const auto source = TextSource::open(inputs, 1000);
  return source.status();
}

/// All kinds of line ends, and characters that are none in Python's text mode.
std::string text_with_all_line_ends() {
  return "a\n\nbb\r\n\r\nccc\rd\r\r\ne\n\rf\n\x85\x0b\x0c\xe2\x80\xa8g\r\n" + std::string(30, 'x') +
         "\r\n" + std::string(25, 'y') + "\r" + "last";
}

/// Lines that end shortly before, at and after multiples of 32 KiB, where the cutter's windows end.
std::string text_with_long_lines() {
  std::string text;
  for (const std::string end : {"\n", "\r\n", "\r"}) {
    for (const size_t size : {32767, 32766, 65535, 3, 32768, 98303, 100000, 0, 32769}) {
      text += std::string(size, 'x') + end;
    }
  }
  return text + std::string(70000, 'y');
}

TEST(TextSource, GivesTheSameLinesForEveryChunkSize) {
  const test::TempFolder folder;
  for (const std::string end : {"", "\n", "\r", "\r\n", "\n\n", "\r\r"}) {
    const std::string text = text_with_all_line_ends() + end;
    test::write_file(folder.path("text"), text);
    for (size_t chunk_bytes = 1; chunk_bytes < text.size() + 5; ++chunk_bytes) {
      EXPECT_EQ(read_lines({folder.path("text")}, chunk_bytes), plain_lines(text)) << chunk_bytes;
    }
  }
}

TEST(TextSource, GivesTheSameLinesThroughAPipe) {
  for (const std::string end : {"", "\n", "\r", "\r\n"}) {
    const std::string text = text_with_all_line_ends() + end;
    for (size_t chunk_bytes = 1; chunk_bytes < text.size() + 5; ++chunk_bytes) {
      EXPECT_EQ(read_piped_lines(text, chunk_bytes), plain_lines(text)) << chunk_bytes;
    }
  }
}

TEST(TextSource, CutsLinesLongerThanItsWindows) {
  const test::TempFolder folder;
  const std::string text = text_with_long_lines();
  test::write_file(folder.path("text"), text);
  for (const size_t chunk_bytes : {1, 2, 1000, 32767, 32768, 32769, 65536, 70000, 98304, 1000000}) {
    EXPECT_EQ(read_lines({folder.path("text")}, chunk_bytes), plain_lines(text)) << chunk_bytes;
    if (chunk_bytes < 1000) continue;  // A stream reads that many bytes at a time.
    EXPECT_EQ(read_piped_lines(text, chunk_bytes), plain_lines(text)) << chunk_bytes;
  }
}

TEST(TextSource, ChunksHaveAboutTheAskedSize) {
  const test::TempFolder folder;
  std::string text;
  while (text.size() < 200000) text += std::string(text.size() % 700, 'x') + '\n';
  test::write_file(folder.path("text"), text);
  auto source = TextSource::open({folder.path("text")}, 50000);
  ASSERT_TRUE(source.has_value());
  TextChunk chunk;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(*source->next(chunk));
    EXPECT_GT(chunk.lines.size(), size_t{49000});
    EXPECT_LE(chunk.lines.size(), size_t{50000});
  }
}

TEST(TextSource, GivesBackTheMemoryOfALongLine) {
  const test::TempFolder folder;
  const std::string text = std::string(5000000, 'x') + "\nshort\nlast\n";
  test::write_file(folder.path("text"), text);
  auto source = TextSource::open({folder.path("text")}, 8);
  ASSERT_TRUE(source.has_value());
  TextChunk chunk;
  ASSERT_TRUE(*source->next(chunk));
  EXPECT_EQ(chunk.lines.size(), size_t{5000001});
  EXPECT_EQ(chunk.capacity, chunk.lines.size() + text::kTextPadding);
  ASSERT_TRUE(*source->next(chunk));
  EXPECT_EQ(chunk.lines, "short\n");
  EXPECT_LT(chunk.capacity, size_t{1000});
}

TEST(TextSource, ReadsInputsInOrderAndEndsALineAtEachEnd) {
  const test::TempFolder folder;
  test::write_file(folder.path("b"), "1\n2");
  test::write_file(folder.path("a"), "");
  test::write_file(folder.path("c"), "3\r");
  auto source =
      TextSource::open({folder.path("b"), folder.path("a"), folder.path("c")}, size_t{1} << 20);
  ASSERT_TRUE(source.has_value());
  EXPECT_EQ(source->total_bytes(), 5);
  EXPECT_THAT(source->names(), ElementsAre(folder.path("b"), folder.path("a"), folder.path("c")));
  EXPECT_THAT(drain(*source), ElementsAre("1", "2", "3"));
}

TEST(TextSource, ResolvesPatternsSorted) {
  const test::TempFolder folder;
  for (const std::string name : {"b.jsonl", "a.jsonl", "B.jsonl", "c.txt"}) {
    test::write_file(folder.path(name), name + "\n");
  }
  EXPECT_THAT(read_lines({folder.path("*.jsonl")}, 100),
              ElementsAre("B.jsonl", "a.jsonl", "b.jsonl"));
  EXPECT_THAT(read_lines({folder.path("c.txt"), folder.path("[ab].json?")}, 100),
              ElementsAre("c.txt", "a.jsonl", "b.jsonl"));
}

TEST(TextSource, AnExistingPathIsNoPattern) {
  const test::TempFolder folder;
  test::write_file(folder.path("a[1].jsonl"), "literal");
  test::write_file(folder.path("a1.jsonl"), "matched");
  EXPECT_THAT(read_lines({folder.path("a[1].jsonl")}, 100), ElementsAre("literal"));
}

TEST(TextSource, NamesWhatItCannotRead) {
  const test::TempFolder folder;
  std::filesystem::create_directory(folder.path("folder"));
  const Status missing = error_of({folder.path("missing.jsonl")});
  EXPECT_EQ(missing.code(), StatusCode::kNotFound);
  EXPECT_EQ(missing.message(), folder.path("missing.jsonl") + ": No such file or directory");
  const Status unmatched = error_of({folder.path("x*.jsonl")});
  EXPECT_EQ(unmatched.code(), StatusCode::kNotFound);
  EXPECT_EQ(unmatched.message(), folder.path("x*.jsonl") + ": no file matches this pattern");
  const Status directory = error_of({folder.path("folder")});
  EXPECT_EQ(directory.code(), StatusCode::kNotFound);
  EXPECT_EQ(directory.message(), folder.path("folder") + ": no file in this folder");
}

/// Makes the process an ordinary user's while it lives, for root may read every file.
class OrdinaryUser {
 public:
  OrdinaryUser() : user_(::geteuid()) {
    constexpr uid_t kNobody = 65534;
    if (user_ == 0) {
      EXPECT_EQ(::seteuid(kNobody), 0);
    }
  }

  OrdinaryUser(const OrdinaryUser&) = delete;
  OrdinaryUser& operator=(const OrdinaryUser&) = delete;

  ~OrdinaryUser() { EXPECT_EQ(::seteuid(user_), 0); }

 private:
  uid_t user_;
};

TEST(TextSource, NamesAFileThatMayNotBeRead) {
  const test::TempFolder folder;
  test::write_file(folder.path("secret"), "a");
  ASSERT_EQ(::chmod(folder.path("secret").c_str(), 0), 0);
  ASSERT_EQ(::chmod(folder.path().c_str(), 0755), 0);
  const OrdinaryUser user;
  const Status status = error_of({folder.path("secret")});
  EXPECT_EQ(status.code(), StatusCode::kIoError);
  EXPECT_EQ(status.message(), folder.path("secret") + ": Permission denied");
}

TEST(TextSource, UnpacksFilesAndPipesByTheirContent) {
  const test::TempFolder folder;
  const std::string text = text_with_all_line_ends();
  for (const auto compress : test::kCompressors) {
    test::write_file(folder.path("data.jsonl"), compress(text));
    for (const size_t chunk_bytes : {1, 7, 1000}) {
      EXPECT_EQ(read_lines({folder.path("data.jsonl")}, chunk_bytes), plain_lines(text));
      EXPECT_EQ(read_piped_lines(compress(text), chunk_bytes), plain_lines(text));
    }
  }
  test::write_file(folder.path("text.gz"), "names decide nothing");
  EXPECT_THAT(read_lines({folder.path("text.gz")}, 100), ElementsAre("names decide nothing"));
}

TEST(TextSource, AnErrorIsTheEndAndHasANumber) {
  const test::TempFolder folder;
  test::write_file(folder.path("first"), "1");
  test::write_file(folder.path("cut.gz"), test::gzip_of("some text").substr(0, 15));
  auto source = TextSource::open({folder.path("first"), folder.path("cut.gz")}, 100);
  ASSERT_TRUE(source.has_value());
  EXPECT_EQ(source->total_bytes(), -1);
  EXPECT_FALSE(source->has_pipe());
  TextChunk chunk;
  EXPECT_TRUE(source->next(chunk).value());
  EXPECT_EQ(source->next(chunk).status().code(), StatusCode::kCorruption);
  EXPECT_EQ(chunk.number, 1);
  const auto after = source->next(chunk);
  EXPECT_TRUE(after.has_value() && !*after);
}

/// Puts a file in the place of standard input while it lives.
class StandardInput {
 public:
  explicit StandardInput(const std::string& path) : saved_(::dup(STDIN_FILENO)) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    ::dup2(fd, STDIN_FILENO);
    ::close(fd);
  }

  StandardInput(const StandardInput&) = delete;
  StandardInput& operator=(const StandardInput&) = delete;

  ~StandardInput() {
    ::dup2(saved_, STDIN_FILENO);
    ::close(saved_);
  }

 private:
  int saved_;
};

TEST(TextSource, ReadsStandardInputAmongOthers) {
  const test::TempFolder folder;
  test::write_file(folder.path("in"), "skipped\n1\n2");
  test::write_file(folder.path("other"), "3");
  const StandardInput input(folder.path("in"));
  char byte = 0;
  while (byte != '\n') ASSERT_EQ(::read(STDIN_FILENO, &byte, 1), 1);
  auto source = TextSource::open({"-", folder.path("other")}, 100);
  ASSERT_TRUE(source.has_value());
  EXPECT_THAT(source->names(), ElementsAre("standard input", folder.path("other")));
  EXPECT_EQ(source->total_bytes(), 4);
  TextChunk chunk;
  ASSERT_TRUE(*source->next(chunk));
  EXPECT_EQ(chunk.lines, "1\n2");
  ASSERT_TRUE(*source->next(chunk));
  EXPECT_EQ(chunk.lines, "3");
  EXPECT_FALSE(*source->next(chunk));
}

TEST(TextSource, TakesStandardInputOnce) {
  EXPECT_EQ(error_of({"-", "-"}).code(), StatusCode::kInvalidArgument);
}

TEST(TextSource, SaysThatAFileBecameShorter) {
  const test::TempFolder folder;
  test::write_file(folder.path("text"), std::string(100000, '\n'));
  auto source = TextSource::open({folder.path("text")}, 1000);
  ASSERT_TRUE(source.has_value());
  TextChunk chunk;
  ASSERT_TRUE(*source->next(chunk));
  std::filesystem::resize_file(folder.path("text"), 500);
  const auto next = source->next(chunk);
  ASSERT_FALSE(next.has_value());
  EXPECT_EQ(next.error().code(), StatusCode::kIoError);
  EXPECT_THAT(next.error().message(), HasSubstr("text: expected 100000 bytes, found 500"));
}

TEST(TextSource, SaysThatAStreamedFileBecameShorter) {
  const test::TempFolder folder;
  std::string csv = "text\n";
  for (int i = 0; i < 30000; ++i) csv += "row\n";
  test::write_file(folder.path("in.csv"), csv);
  auto source = TextSource::open({folder.path("in.csv")}, 1000);
  ASSERT_TRUE(source.has_value());
  TextChunk chunk;
  ASSERT_TRUE(*source->next(chunk));
  std::filesystem::resize_file(folder.path("in.csv"), 2001);
  Result<bool> next = true;
  while (next.has_value() && *next) next = source->next(chunk);
  ASSERT_FALSE(next.has_value());
  EXPECT_EQ(next.error().code(), StatusCode::kIoError);
  EXPECT_THAT(next.error().message(), HasSubstr("in.csv: was truncated while it was read"));
}

/// The texts of all chunks, which eight threads ask for, in the chunks' order.
std::string read_by_threads(const std::string& inputs, size_t chunk_bytes) {
  auto source = TextSource::open({inputs}, chunk_bytes);
  EXPECT_TRUE(source.has_value());
  if (!source.has_value()) return {};
  std::mutex mutex;
  std::map<int64_t, std::string> chunks;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      TextChunk chunk;
      while (true) {
        const auto more = source->next(chunk);
        if (!more.has_value() || !*more) return;
        const std::lock_guard lock(mutex);
        EXPECT_TRUE(chunks.emplace(chunk.number, chunk.lines).second);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::string found;
  for (const auto& [number, text] : chunks) found += text;
  EXPECT_EQ(chunks.rbegin()->first, static_cast<int64_t>(chunks.size()) - 1);
  return found;
}

TEST(TextSource, ManyThreadsGetEveryLineOnce) {
  constexpr int kFiles = 30;
  constexpr int kLinesAFile = 700;
  const test::TempFolder folder;
  std::string expected;
  for (int f = 0; f < kFiles; ++f) {
    std::string text;
    for (int i = 0; i < kLinesAFile; ++i) text += std::to_string(f * kLinesAFile + i) + "\n";
    const std::string name = fmt::format("{:02}", f);
    test::write_file(folder.path("plain" + name), text);
    test::write_file(folder.path("packed" + name), test::kCompressors[f % 3](text));
    expected += text;
  }
  // The first reads packed files in streams, the last as wholes.
  for (const size_t chunk_bytes : {500, 10000, 1 << 20}) {
    EXPECT_EQ(read_by_threads(folder.path("plain*"), chunk_bytes), expected);
    EXPECT_EQ(read_by_threads(folder.path("packed*"), chunk_bytes), expected);
  }
}

TEST(TextSource, DamageOfASmallFileComesWithTheDocumentsBeforeIt) {
  const test::TempFolder folder;
  const std::string packed = test::zstd_of("1\n2\n") + test::zstd_of("3\n");
  test::write_file(folder.path("cut"), packed.substr(0, packed.size() - 1));
  auto source = TextSource::open({folder.path("cut")}, size_t{1} << 20);
  ASSERT_TRUE(source.has_value());
  TextChunk chunk;
  ASSERT_TRUE(source->next(chunk).value());
  EXPECT_TRUE(chunk.lines.starts_with("1\n2\n"));
  EXPECT_EQ(chunk.error.code(), StatusCode::kCorruption);
}

TEST(TakeLine, SplitsAsPythonDoes) {
  for (const std::string& text :
       {text_with_all_line_ends(), text_with_long_lines(), std::string(), std::string("\n"),
        std::string("\r\n\r"), std::string(600, '\r'), std::string(1023, 'x') + "\r\ny"}) {
    Lines lines;
    append_lines(text, lines);
    EXPECT_EQ(lines, plain_lines(text));
  }
}

TEST(TextSource, InterruptEndsTheWaitForASilentPipe) {
  const test::TempFolder folder;
  const std::string path = folder.path("pipe");
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const int writer = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(writer, 0);
  ASSERT_EQ(::write(writer, "half a line", 11), 11);
  auto source = TextSource::open({path}, 100);
  ASSERT_TRUE(source.has_value());
  std::thread interrupter([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    source->interrupt();
  });
  TextChunk chunk;
  const auto more = source->next(chunk);
  interrupter.join();
  ::close(writer);
  ASSERT_FALSE(more.has_value());
  EXPECT_EQ(more.error().code(), StatusCode::kCancelled);
}

}  // namespace
}  // namespace meg::preprocess
