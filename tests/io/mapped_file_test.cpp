#include "libmeg/io/mapped_file.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <vector>

#include "tests/temp_folder.h"

namespace meg::io {
namespace {

std::string path_at(const std::byte* address) {
  const char* path = mapped_path_at(address);
  return path == nullptr ? "" : path;
}

TEST(MappedFile, IsFoundByItsAddressesAsLongAsItLives) {
  const test::TempFolder folder;
  test::write_file(folder.path("a"), "some bytes");
  test::write_file(folder.path("b"), "others");
  const std::byte* begin = nullptr;
  {
    auto a = MappedFile::open(folder.path("a"));
    const auto b = MappedFile::open(folder.path("b"));
    ASSERT_TRUE(a.has_value() && b.has_value());
    const MappedFile moved = std::move(*a);
    begin = moved.bytes().data();
    EXPECT_EQ(path_at(begin), folder.path("a"));
    EXPECT_EQ(path_at(begin + moved.size() - 1), folder.path("a"));
    EXPECT_EQ(path_at(begin + moved.size()), "");
    EXPECT_EQ(path_at(b->bytes().data()), folder.path("b"));
  }
  EXPECT_EQ(path_at(begin), "");
}

TEST(MappedFile, ManyAreFoundWhateverWasClosedBefore) {
  const test::TempFolder folder;
  std::vector<MappedFile> files;
  for (int i = 0; i < 50; ++i) {
    const std::string path = folder.path(std::to_string(i));
    test::write_file(path, path);
    auto file = MappedFile::open(path);
    ASSERT_TRUE(file.has_value()) << file.error().message();
    files.push_back(std::move(*file));
    if (i % 3 == 0) files.erase(files.begin() + i / 5);
  }
  for (const MappedFile& file : files) EXPECT_EQ(path_at(file.bytes().data()), file.path());
}

TEST(MappedFile, AHandlerOfSigbusLearnsWhichFileWasCut) {
  const test::TempFolder folder;
  test::write_file(folder.path("a"), std::string(100000, 'a'));
  const auto file = MappedFile::open(folder.path("a"));
  ASSERT_TRUE(file.has_value());
  ASSERT_EQ(::truncate(folder.path("a").c_str(), 1), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    static std::string expected = folder.path("a");

    struct sigaction action {};

    action.sa_flags = SA_SIGINFO;
    action.sa_sigaction = [](int, siginfo_t* info, void*) {
      const char* path = mapped_path_at(info->si_addr);
      ::_exit(path != nullptr && expected == path ? 0 : 2);
    };
    ::sigaction(SIGBUS, &action, nullptr);
    volatile std::byte touched = file->bytes()[90000];
    ::_exit(touched == std::byte{'a'} ? 3 : 4);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(MappedFile, MapsTheOpenFileThoughItsPathNamesAnother) {
  const test::TempFolder folder;
  test::write_file(folder.path("a"), "the first");
  test::write_file(folder.path("b"), "the other");
  const auto file = FileDescriptor::open_regular(folder.path("a"));
  ASSERT_TRUE(file.has_value());
  ASSERT_EQ(std::rename(folder.path("b").c_str(), folder.path("a").c_str()), 0);
  const auto mapped = MappedFile::map(*file);
  ASSERT_TRUE(mapped.has_value()) << mapped.error().message();
  EXPECT_EQ(std::memcmp(mapped->bytes().data(), "the first", 9), 0);
  EXPECT_EQ(mapped->path(), folder.path("a"));
}

TEST(MappedFile, GivesItsBytesAsTextThatIsNeverNull) {
  const test::TempFolder folder;
  test::write_file(folder.path("a"), "a text");
  test::write_file(folder.path("empty"), "");
  const auto file = MappedFile::open(folder.path("a"));
  ASSERT_TRUE(file.has_value());
  EXPECT_EQ(file->text(), "a text");
  const auto empty = MappedFile::open(folder.path("empty"));
  ASSERT_TRUE(empty.has_value());
  EXPECT_EQ(empty->text(), "");
  EXPECT_NE(empty->text().data(), nullptr);
}

TEST(MappedFile, RefusesAPipeWithoutWaitingForItsWriter) {
  const test::TempFolder folder;
  ASSERT_EQ(::mkfifo(folder.path("pipe").c_str(), 0600), 0);
  const auto file = MappedFile::open(folder.path("pipe"));
  ASSERT_FALSE(file.has_value());
  EXPECT_EQ(file.error().message(),
            folder.path("pipe") + ": expected a regular file, found a pipe or a device");
}

TEST(MappedPart, IsThatPartOfTheFileWhereverItBegins) {
  const test::TempFolder folder;
  std::string content;
  for (int i = 0; i < 30000; ++i) content += static_cast<char>(i * 7 + i / 256);
  test::write_file(folder.path("a"), content);
  const auto file = FileDescriptor::open_regular(folder.path("a"));
  ASSERT_TRUE(file.has_value());
  for (const size_t offset : {size_t{0}, size_t{1}, size_t{4096}, size_t{12345}, size_t{29999}}) {
    for (const size_t length : {size_t{0}, size_t{1}, size_t{5000}, content.size() - offset}) {
      if (offset + length > content.size()) continue;
      auto made = MappedPart::map(*file, offset, length);
      ASSERT_TRUE(made.has_value()) << made.error().message();
      MappedPart range;
      range = std::move(*made);
      const std::string_view found(reinterpret_cast<const char*>(range.bytes().data()),
                                   range.bytes().size());
      EXPECT_EQ(found, std::string_view(content).substr(offset, length));
      if (length > 0) {
        EXPECT_EQ(path_at(range.bytes().data()), folder.path("a"));
      }
    }
  }
  const auto longer = MappedPart::map(*file, 29000, 1001);
  ASSERT_FALSE(longer.has_value());
  EXPECT_EQ(longer.error().code(), StatusCode::kCorruption);
  EXPECT_NE(longer.error().message().find("was truncated"), std::string::npos);
}

}  // namespace
}  // namespace meg::io
