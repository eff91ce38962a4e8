#include "libmeg/io/mapping_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace meg::io {
namespace {

/// A number that counts how many of its kind are open.
class Counted {
 public:
  Counted(int number, std::atomic<int>* open) : number_(number), open_(open) { ++*open_; }

  Counted(Counted&& other) noexcept : number_(other.number_), open_(other.open_) { ++*open_; }

  Counted& operator=(Counted&&) = delete;

  ~Counted() { --*open_; }

  int number() const { return number_; }

 private:
  int number_;
  std::atomic<int>* open_;
};

class MappingPoolTest : public ::testing::Test {
 protected:
  void make(MappingPool::Limits limits, int count) {
    const auto pool = std::make_shared<MappingPool>(limits);
    for (int i = 0; i < count; ++i) {
      all_.push_back(
          std::make_unique<PooledMapping<Counted>>(pool, 2, [this, i]() -> Result<Counted> {
            ++opened_;
            return Counted(i, &open_);
          }));
    }
  }

  std::atomic<int> open_ = 0, opened_ = 0;
  std::vector<std::unique_ptr<PooledMapping<Counted>>> all_;
};

TEST_F(MappingPoolTest, WhatFitsIsOpenedOnce) {
  make({.kept = 20, .in_turn = 0}, 10);
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 10; ++i) EXPECT_EQ((*all_[i]->pin())->number(), i);
  }
  EXPECT_EQ(opened_, 10);
  EXPECT_EQ(open_, 10);
}

TEST_F(MappingPoolTest, TheRestTakesTurnsTheLastUsedFirst) {
  make({.kept = 4, .in_turn = 4}, 10);
  for (int i = 0; i < 10; ++i) EXPECT_EQ((*all_[i]->pin())->number(), i);
  EXPECT_EQ(open_, 4);
  EXPECT_EQ(opened_, 10);
  for (const int i : {0, 1, 8, 9}) EXPECT_EQ((*all_[i]->pin())->number(), i);
  EXPECT_EQ(opened_, 10);
  EXPECT_EQ((*all_[5]->pin())->number(), 5);  // closes 8, which was used longest ago
  EXPECT_EQ((*all_[9]->pin())->number(), 9);
  EXPECT_EQ(opened_, 11);
  EXPECT_EQ((*all_[8]->pin())->number(), 8);
  EXPECT_EQ(opened_, 12);
}

TEST_F(MappingPoolTest, WhatIsPinnedStaysOpen) {
  make({.kept = 0, .in_turn = 0}, 3);
  const auto pin = all_[0]->pin();
  for (int i = 1; i < 3; ++i) EXPECT_EQ((*all_[i]->pin())->number(), i);
  EXPECT_EQ((*pin)->number(), 0);
  EXPECT_EQ(open_, 2);
}

TEST_F(MappingPoolTest, ForgetsDestroyedMappings) {
  make({.kept = 0, .in_turn = 100}, 3);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(all_[i]->pin().has_value());
  EXPECT_EQ(open_, 3);
  all_.clear();
  EXPECT_EQ(open_, 0);
}

TEST_F(MappingPoolTest, ErrorsOfOpeningAreGivenAndNotKept) {
  bool fails = true;
  const PooledMapping<int> mapping(std::make_shared<MappingPool>(), 1, [&]() -> Result<int> {
    if (fails) return Status(StatusCode::kNotFound, "gone");
    return 5;
  });
  EXPECT_EQ(mapping.pin().status().message(), "gone");
  fails = false;
  EXPECT_EQ(**mapping.pin(), 5);
}

TEST_F(MappingPoolTest, ThreadsShareIt) {
  make({.kept = 6, .in_turn = 6}, 20);
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i) {
        const int number = (i * 7 + t) % 20;
        const auto pin = all_[static_cast<size_t>(number)]->pin();
        if (!pin.has_value() || (*pin)->number() != number) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(open_, 6);
}

TEST(MappingLimit, IsTheSystems) { EXPECT_GE(mapping_limit(), 1000); }

}  // namespace
}  // namespace meg::io
