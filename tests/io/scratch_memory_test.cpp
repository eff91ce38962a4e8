#include "libmeg/io/scratch_memory.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <span>
#include <utility>

#include "tests/child_process.h"
#include "tests/temp_folder.h"

namespace meg::io {
namespace {

TEST(ScratchMemory, KeepsWhatIsInItWhenItGrowsAndHasNoName) {
  const test::TempFolder folder;
  auto created = ScratchMemory::create(folder.path("a"));
  ASSERT_TRUE(created.has_value()) << created.error().message();
  ScratchMemory memory = std::move(*created);
  ASSERT_TRUE(memory.grow(10'000).ok());
  const auto bytes = [&] {
    return std::span(static_cast<unsigned char*>(memory.data()), memory.size());
  };
  EXPECT_EQ(std::ranges::count(bytes(), 0), 10'000);
  std::ranges::fill(bytes(), 7);
  ASSERT_TRUE(memory.grow(5'000'000).ok());
  EXPECT_EQ(memory.size(), 5'000'000U);
  EXPECT_EQ(std::ranges::count(bytes(), 7), 10'000);
  EXPECT_EQ(std::ranges::count(bytes(), 0), 4'990'000);
  ASSERT_TRUE(memory.grow(10).ok());  // it does not shrink
  EXPECT_EQ(memory.size(), 5'000'000U);
  EXPECT_EQ(folder.file_count(), 0);
}

TEST(ScratchMemory, NamesThePathWhereThereIsNoRoomOrNoFolder) {
  const test::TempFolder folder;
  const auto absent = ScratchMemory::create(folder.path("none/a"));
  ASSERT_FALSE(absent.has_value());
  EXPECT_EQ(absent.error().message(), folder.path("none/a") + ": No such file or directory");
  EXPECT_EQ(test::in_child([&]() -> std::string {
              std::signal(SIGXFSZ, SIG_IGN);
              const rlimit limit{100'000, 100'000};
              if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return "no limit";
              auto memory = ScratchMemory::create(folder.path("a"));
              if (!memory.has_value()) return memory.error().message();
              if (!memory->grow(50'000).ok()) return "50,000 bytes are refused";
              const Status status = memory->grow(200'000);
              if (memory->size() != 50'000) return "another size";
              return status.message() == folder.path("a") + ": File too large" ? ""
                                                                               : status.message();
            }),
            "");
}

}  // namespace
}  // namespace meg::io
