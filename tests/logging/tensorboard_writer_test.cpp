// Event files byte by byte; tensorboard_reads_event_files.py lets the real package read them.

#include "libmeg/logging/tensorboard_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "libmeg/base/bytes.h"
#include "libmeg/logging/internal/tf_record.h"
#include "tests/temp_folder.h"

namespace meg::logging {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

TensorboardWriter writer_in(const std::string& folder, TensorboardWriter::Options options = {}) {
  auto writer = TensorboardWriter::create(folder, options);
  EXPECT_TRUE(writer.has_value()) << writer.error().message();
  return std::move(*writer);
}

/// The contents of whole records; fails where a CRC is wrong or bytes are left over.
std::vector<std::string> records_of(const std::string& path) {
  const std::string file = test::read_file(path);
  std::vector<std::string> records;
  for (size_t at = 0; at < file.size();) {
    const auto length = load_le<uint64_t>(file.data() + at);
    std::string again;
    append_tf_record(again, file.substr(at + 12, length));
    EXPECT_EQ(file.substr(at, again.size()), again);
    records.push_back(file.substr(at + 12, length));
    at += again.size();
  }
  return records;
}

TEST(TensorboardWriter, CrcIsCastagnolis) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U);
  EXPECT_EQ(crc32c(""), 0U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);
}

TEST(TensorboardWriter, TheFilesNameIsTensorboards) {
  const test::TempFolder folder;
  const TensorboardWriter first = writer_in(folder.path("run/a"));
  const TensorboardWriter second = writer_in(folder.path("run/a"));
  EXPECT_THAT(std::filesystem::path(first.path()).filename().string(),
              MatchesRegex("events\\.out\\.tfevents\\.[0-9]{10}\\..+\\." +
                           std::to_string(getpid()) + "\\.[0-9]+"));
  EXPECT_NE(first.path(), second.path());
}

TEST(TensorboardWriter, AFileBeginsWithItsVersionAndGrowsByWholeRecords) {
  const test::TempFolder folder;
  TensorboardWriter writer = writer_in(folder.path());
  ASSERT_EQ(records_of(writer.path()).size(), 1u);
  EXPECT_THAT(records_of(writer.path())[0], HasSubstr("brain.Event:2"));
  ASSERT_TRUE(writer.add_scalar("lm loss", 1.5, 300).ok());
  ASSERT_TRUE(writer.flush().ok());
  const auto records = records_of(writer.path());
  ASSERT_EQ(records.size(), 2u);
  // step 300 as a varint; tag of 7 bytes; 1.5F.
  EXPECT_EQ(records[1].substr(9),
            std::string("\x10\xAC\x02\x2A\x10\x0A\x0E\x0A\x07lm loss\x15\x00\x00\xC0\x3F", 21));
}

TEST(TensorboardWriter, EventsAreKeptBackUntilThereAreEnough) {
  const test::TempFolder folder;
  TensorboardWriter writer = writer_in(folder.path(), {.max_queue = 3});
  const auto records = [&] { return records_of(writer.path()).size(); };
  for (int step = 0; step < 2; ++step) ASSERT_TRUE(writer.add_scalar("a", 1, step).ok());
  EXPECT_EQ(records(), 1u);
  ASSERT_TRUE(writer.add_scalar("a", 1, 2).ok());
  EXPECT_EQ(records(), 4u);
}

TEST(TensorboardWriter, EventsAreKeptBackNoLongerThanAsked) {
  const test::TempFolder folder;
  TensorboardWriter writer = writer_in(folder.path(), {.flush_seconds = 0});
  ASSERT_TRUE(writer.add_scalar("a", 1, 0).ok());
  EXPECT_EQ(records_of(writer.path()).size(), 2u);
}

TEST(TensorboardWriter, TheLastEventsAreWrittenAtTheEnd) {
  const test::TempFolder folder;
  std::string path;
  {
    TensorboardWriter writer = writer_in(folder.path());
    path = writer.path();
    ASSERT_TRUE(writer.add_text("seed", "1234", 0).ok());
    const TensorboardWriter moved = std::move(writer);
  }
  ASSERT_EQ(records_of(path).size(), 2u);
  EXPECT_THAT(records_of(path)[1], HasSubstr("seed/text_summary"));
}

TEST(TensorboardWriter, AFolderThatCannotBeMadeIsNamed) {
  const test::TempFolder folder;
  test::write_file(folder.path("file"), "");
  const auto writer = TensorboardWriter::create(folder.path("file/run"), {});
  ASSERT_FALSE(writer.has_value());
  EXPECT_THAT(writer.error().message(), HasSubstr(folder.path("file/run")));
}

}  // namespace
}  // namespace meg::logging
