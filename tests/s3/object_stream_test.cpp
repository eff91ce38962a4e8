#include "libmeg/s3/object_stream.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace meg::s3 {
namespace {

/// Bytes of one request; see object_stream.cpp.
constexpr int64_t kBlock = int64_t{8} << 20;

/// An object in memory. Requests for later blocks are answered before those for earlier ones.
class MemoryObject : public Object {
 public:
  explicit MemoryObject(int64_t size) : bytes_(static_cast<size_t>(size)) {
    for (size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = byte_at(i);
  }

  static std::byte byte_at(size_t place) {
    return static_cast<std::byte>(place * 31 + place / 251);
  }

  const std::string& address() const override { return name_; }

  int64_t size() const override { return std::ssize(bytes_); }

  const std::string& etag() const override { return name_; }

  Result<size_t> read_at(int64_t offset, std::span<std::byte> into,
                         const std::atomic<bool>* interrupted) const override {
    if (interrupted != nullptr && *interrupted) {
      return Status(StatusCode::kCancelled, "interrupted");
    }
    ++requests;
    if (offset / kBlock == failing_block)
      return Status(StatusCode::kIoError, "s3://bucket/key: gone");
    std::this_thread::sleep_for(std::chrono::milliseconds(offset == 0 ? 20 : 0));
    const int64_t count = std::min<int64_t>(std::ssize(into), size() - offset);
    std::copy_n(bytes_.begin() + offset, count, into.begin());
    return static_cast<size_t>(count);
  }

  int64_t failing_block = -1;
  mutable std::atomic<int> requests = 0;

 private:
  std::string name_ = "s3://bucket/key";
  std::vector<std::byte> bytes_;
};

/// Reads to the end or the first error; the bytes that came before it.
std::pair<std::vector<std::byte>, Status> read_all(io::ByteStream& stream, size_t step) {
  std::vector<std::byte> all, part(step);
  while (true) {
    const Result<size_t> got = stream.read(part);
    if (!got.has_value()) return {std::move(all), got.error()};
    if (*got == 0) return {std::move(all), Status()};
    all.insert(all.end(), part.begin(), part.begin() + static_cast<std::ptrdiff_t>(*got));
  }
}

void expect_bytes(const std::vector<std::byte>& found, int64_t begin, int64_t end) {
  ASSERT_EQ(std::ssize(found), end - begin);
  for (int64_t i = begin; i < end; ++i) {
    ASSERT_EQ(found[static_cast<size_t>(i - begin)], MemoryObject::byte_at(static_cast<size_t>(i)))
        << i;
  }
}

TEST(ObjectStream, GivesBlocksInOrderWhateverIsAnsweredFirst) {
  const MemoryObject object(5 * kBlock + 17);
  for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, object.size()},
                                   {3, kBlock + 3},
                                   {kBlock - 1, kBlock + 1},
                                   {5 * kBlock, 5 * kBlock + 17}}) {
    const std::unique_ptr<io::ByteStream> stream = object_stream(object, begin, end, nullptr);
    const auto [bytes, status] = read_all(*stream, size_t{3} << 20);
    EXPECT_TRUE(status.ok()) << status.message();
    expect_bytes(bytes, begin, end);
  }
}

TEST(ObjectStream, AnEmptyRangeAsksForNothing) {
  const MemoryObject object(10);
  const std::unique_ptr<io::ByteStream> stream = object_stream(object, 4, 4, nullptr);
  EXPECT_THAT(read_all(*stream, 100).first, ::testing::IsEmpty());
  EXPECT_EQ(object.requests, 0);
}

TEST(ObjectStream, ReadsNoMoreThanAFewBlocksAhead) {
  const MemoryObject object(12 * kBlock);
  {
    const std::unique_ptr<io::ByteStream> stream = object_stream(object, 0, object.size(), nullptr);
    std::vector<std::byte> one(1);
    ASSERT_TRUE(stream->read(one).has_value());
  }  // waits for what it asked for
  EXPECT_LE(object.requests, 4);
}

TEST(ObjectStream, AnErrorComesAfterTheBytesBeforeItAndStays) {
  MemoryObject object(4 * kBlock);
  object.failing_block = 2;
  const std::unique_ptr<io::ByteStream> stream = object_stream(object, 0, object.size(), nullptr);
  const auto [bytes, status] = read_all(*stream, size_t{1} << 20);
  EXPECT_EQ(status.code(), StatusCode::kIoError);
  expect_bytes(bytes, 0, 2 * kBlock);
  std::vector<std::byte> more(1);
  const Result<size_t> again = stream->read(more);
  ASSERT_FALSE(again.has_value());
  EXPECT_EQ(again.error().message(), status.message());
}

TEST(ObjectStream, AnInterruptionEndsIt) {
  const MemoryObject object(2 * kBlock);
  const std::atomic<bool> interrupted = true;
  const std::unique_ptr<io::ByteStream> stream =
      object_stream(object, 0, object.size(), &interrupted);
  EXPECT_EQ(read_all(*stream, 100).second.code(), StatusCode::kCancelled);
}

}  // namespace
}  // namespace meg::s3
