#include "libmeg/io/pooled_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "tests/child_process.h"
#include "tests/temp_folder.h"

namespace meg::io {
namespace {

using ::testing::HasSubstr;

constexpr int kFiles = 100;

/// Sets a hard limit, as clusters do, for the rest of the process.
void allow_open_files(rlim_t count) {
  const rlimit limit{.rlim_cur = count, .rlim_max = count};
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

std::string text_of(const PooledFile& file) {
  const auto pin = file.pin();
  if (!pin.has_value()) return pin.error().message();
  std::array<std::byte, 32> bytes{};
  const auto count = (*pin)->read_at(0, bytes);
  if (!count.has_value()) return count.error().message();
  return std::string(reinterpret_cast<const char*>(bytes.data()), *count);
}

class PooledFileTest : public ::testing::Test {
 protected:
  std::string path(int i) const { return folder_.path("file" + std::to_string(i)); }

  void write_all() const {
    for (int i = 0; i < kFiles; ++i) std::ofstream(path(i)) << "text " << i;
  }

  /// All of them; "" as error.
  std::string open_all(std::vector<PooledFile>* files) const {
    for (int i = 0; i < kFiles; ++i) {
      auto file = PooledFile::open(path(i));
      if (!file.has_value()) return file.error().message();
      files->push_back(*std::move(file));
    }
    return "";
  }

  const test::TempFolder folder_;
};

TEST_F(PooledFileTest, ManyAreReadUnderALowLimit) {
  write_all();
  const std::string found = test::in_child([&]() -> std::string {
    allow_open_files(24);
    std::vector<PooledFile> files;
    if (std::string error = open_all(&files); !error.empty()) return error;
    std::atomic<int> wrong = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 5 * kFiles; ++i) {
          const int chosen = (i * (2 * t + 1)) % kFiles;
          wrong += text_of(files[static_cast<size_t>(chosen)]) != "text " + std::to_string(chosen);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    return wrong == 0 ? "" : std::to_string(wrong) + " files read wrongly";
  });
  EXPECT_EQ(found, "");
}

TEST_F(PooledFileTest, ManyAreWrittenUnderALowLimit) {
  const std::string found = test::in_child([&]() -> std::string {
    allow_open_files(24);
    std::vector<PooledFile> files;
    for (int i = 0; i < kFiles; ++i) {
      auto file = PooledFile::create(path(i));
      if (!file.has_value()) return file.error().message();
      files.push_back(*std::move(file));
    }
    for (const int64_t at : {2, 0}) {
      for (const PooledFile& file : files) {
        const auto pin = file.pin();
        if (!pin.has_value()) return pin.error().message();
        const std::string_view text = at == 0 ? "be" : "gin";
        const Status status = (*pin)->write_at(at, std::as_bytes(std::span(text)));
        if (!status.ok()) return status.message();
      }
    }
    for (PooledFile& file : files) {
      if (const Status status = file.close(); !status.ok()) return status.message();
      if (text_of(file) != "begin") return file.path() + ": " + text_of(file);
    }
    return "";
  });
  EXPECT_EQ(found, "");
}

TEST_F(PooledFileTest, AnOpenFileSurvivesItsEviction) {
  write_all();
  const std::string found = test::in_child([&]() -> std::string {
    allow_open_files(24);
    const auto first = PooledFile::open(path(0));
    if (!first.has_value()) return first.error().message();
    const auto pin = first->pin();
    std::vector<PooledFile> files;
    if (std::string error = open_all(&files); !error.empty()) return error;
    std::array<std::byte, 6> bytes{};
    return (*pin)->read_exactly_at(0, bytes).message();
  });
  EXPECT_EQ(found, "");
}

TEST_F(PooledFileTest, ReplacedOrRewrittenFilesAreAnError) {
  write_all();
  const std::string found = test::in_child([&]() -> std::string {
    allow_open_files(24);
    std::vector<PooledFile> files;
    if (std::string error = open_all(&files); !error.empty()) return error;
    std::filesystem::copy_file(path(0), path(kFiles));
    std::filesystem::rename(path(kFiles), path(0));  // the same bytes, another file
    std::ofstream(path(1)) << "shorter";
    for (const int i : {0, 1}) {
      if (text_of(files[static_cast<size_t>(i)]) != path(i) + ": changed while it was read") {
        return text_of(files[static_cast<size_t>(i)]);
      }
    }
    return "";
  });
  EXPECT_EQ(found, "");
}

TEST_F(PooledFileTest, CreateRefusesAFileThatIsThere) {
  write_all();
  const auto file = PooledFile::create(path(0));
  ASSERT_FALSE(file.has_value());
  EXPECT_THAT(file.error().message(), HasSubstr("cannot create " + path(0) + ": File exists"));
}

}  // namespace
}  // namespace meg::io
