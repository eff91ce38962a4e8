#include "libmeg/preprocess/sources/internal/columns_ahead.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <vector>

namespace meg::preprocess {
namespace {

using testing::ElementsAre;

/// A file of groups: "s" is a small one, "l3" one of three chunks, "e" one that cannot be read,
/// "m" one for which there is no memory.
class FakeReader : public ColumnReader {
 public:
  explicit FakeReader(std::vector<std::string> groups) : groups_(std::move(groups)) {}

  int64_t groups() const override { return std::ssize(groups_); }

  Status select(int64_t, int64_t, int64_t) override { return Status(); }

  Status next(TextChunk& chunk) override {
    chunk.records.clear();
    if (next_ == groups_.size()) return Status();
    const std::string& group = groups_[next_];
    if (group == "e") return Status(StatusCode::kCorruption, "damaged");
    if (group == "m") throw std::bad_alloc();
    fill(chunk, static_cast<int64_t>(next_ * 10) + part_);
    if (++part_ < std::stoi(group.substr(1))) return Status();
    ++next_;
    part_ = 0;
    return Status();
  }

  Result<std::optional<RowGroup>> take_small_group() override {
    if (part_ > 0 || next_ == groups_.size() || groups_[next_][0] != 's') {
      return std::optional<RowGroup>();
    }
    return std::optional<RowGroup>({.number = static_cast<int64_t>(next_++), .rows = 1});
  }

  Status read_group(const RowGroup& group, TextChunk& chunk) override {
    const std::string& found = groups_[static_cast<size_t>(group.number)];
    if (found == "se") return Status(StatusCode::kCorruption, "damaged group");
    if (found == "sm") throw std::bad_alloc();
    fill(chunk, group.number * 10);
    return Status();
  }

 private:
  static void fill(TextChunk& chunk, int64_t number) {
    chunk.records.assign(1, Record());
    chunk.offset = number;
  }

  std::vector<std::string> groups_;
  size_t next_ = 0;
  int part_ = 0;
};

class Ahead {
 public:
  explicit Ahead(const std::vector<std::string>& groups)
      : columns_(std::make_unique<FakeReader>(groups),
                 [groups]() -> Result<std::unique_ptr<ColumnReader>> {
                   return std::unique_ptr<ColumnReader>(std::make_unique<FakeReader>(groups));
                 }) {}

  /// What `threads` threads read, by the turns of their claims; an error as -1, after which
  /// nothing is claimed. Each must keep the number and input that its chunk was given.
  std::vector<int64_t> read_by(int threads) {
    std::vector<std::thread> readers;
    readers.reserve(static_cast<size_t>(threads));
    for (int i = 0; i < threads; ++i) readers.emplace_back([this] { read_all(); });
    for (std::thread& reader : readers) reader.join();
    return found_;
  }

  ColumnsAhead& columns() { return columns_; }

  const Status& error() const { return error_; }

 private:
  void read_all() {
    TextChunk chunk;
    while (true) {
      std::shared_ptr<ColumnsAhead::Piece> piece;
      size_t turn = 0;
      {
        const std::lock_guard lock(mutex_);
        if (is_end_) return;
        const auto claimed = columns_.claim();
        is_end_ = !claimed.has_value() || *claimed == nullptr;
        if (claimed.has_value() && *claimed == nullptr) return;
        turn = found_.size();
        found_.push_back(-1);
        if (!claimed.has_value()) error_ = claimed.error();
        if (!claimed.has_value()) return;
        piece = *claimed;
      }
      chunk.number = static_cast<int64_t>(turn);
      chunk.input = 7;
      const Status status = columns_.read(*piece, chunk);
      const std::lock_guard lock(mutex_);
      if (!status.ok()) error_ = status;
      if (!status.ok()) continue;
      found_[turn] = chunk.offset;
      EXPECT_EQ(chunk.number, static_cast<int64_t>(turn));
      EXPECT_EQ(chunk.input, 7);
    }
  }

  ColumnsAhead columns_;
  std::mutex mutex_;
  bool is_end_ = false;
  std::vector<int64_t> found_;
  Status error_;
};

TEST(ColumnsAhead, GivesEveryChunkInTheFilesOrder) {
  for (int turn = 0; turn < 20; ++turn) {
    for (const int threads : {1, 2, 5}) {
      EXPECT_THAT(Ahead({"s", "l3", "s", "s", "s", "s", "s", "l1", "l2", "s"}).read_by(threads),
                  ElementsAre(0, 10, 11, 12, 20, 30, 40, 50, 60, 70, 80, 81, 90));
      EXPECT_THAT(Ahead({"l7"}).read_by(threads), ElementsAre(0, 1, 2, 3, 4, 5, 6));
      EXPECT_THAT(Ahead({}).read_by(threads), ElementsAre());
    }
  }
}

TEST(ColumnsAhead, AnErrorHasItsTurn) {
  for (int turn = 0; turn < 20; ++turn) {
    for (const int threads : {1, 3}) {
      Ahead large({"s", "l2", "e", "s"});
      EXPECT_THAT(large.read_by(threads), ElementsAre(0, 10, 11, -1));
      EXPECT_EQ(large.error().message(), "damaged");
      Ahead small({"s", "s", "se", "s"});
      EXPECT_THAT(small.read_by(threads), ElementsAre(0, 10, -1, 30));
      EXPECT_EQ(small.error().message(), "damaged group");
      Ahead no_memory({"l1", "m"});
      EXPECT_THAT(no_memory.read_by(threads), ElementsAre(0, -1));
      EXPECT_EQ(no_memory.error().code(), StatusCode::kResourceExhausted);
    }
  }
}

TEST(ColumnsAhead, EndsWithWhatNobodyAskedForLeftUnread) {
  for (int claims = 0; claims < 4; ++claims) {
    Ahead ahead({"s", "l1000", "s", "s", "s", "s", "s", "s"});
    for (int i = 0; i < claims; ++i) EXPECT_TRUE(ahead.columns().claim().has_value());
  }
}

}  // namespace
}  // namespace meg::preprocess
