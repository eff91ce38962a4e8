#include "libmeg/preprocess/sources/internal/arrow/arrow_guard.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

namespace meg::preprocess {
namespace {

// Limits what one process holds of Arrow's at a time. A damaged or hostile file may claim any size
// of a batch.
constexpr int64_t kMaxMemory = int64_t{8} << 30;

class LimitedMemory : public arrow::ProxyMemoryPool {
 public:
  LimitedMemory() : ProxyMemoryPool(arrow::default_memory_pool()) {}

  arrow::Status Allocate(int64_t size, int64_t alignment, uint8_t** out) override {
    ARROW_RETURN_NOT_OK(check(size));
    return ProxyMemoryPool::Allocate(size, alignment, out);
  }

  arrow::Status Reallocate(int64_t old_size, int64_t new_size, int64_t alignment,
                           uint8_t** ptr) override {
    ARROW_RETURN_NOT_OK(check(new_size - old_size));
    return ProxyMemoryPool::Reallocate(old_size, new_size, alignment, ptr);
  }

 private:
  arrow::Status check(int64_t added) const {
    if (added <= kMaxMemory - bytes_allocated()) return arrow::Status::OK();
    return arrow::Status::OutOfMemory("expected batches of at most ", kMaxMemory >> 30,
                                      " GiB, found more");
  }
};

/// Goes through Arrow with its own status.
class ReadError : public arrow::StatusDetail {
 public:
  static constexpr const char* kType = "meg::preprocess::ReadError";

  explicit ReadError(Status why) : why_(std::move(why)) {}

  const char* type_id() const override { return kType; }

  std::string ToString() const override { return why_.message(); }

  const Status& why() const { return why_; }

 private:
  Status why_;
};

}  // namespace

arrow::Status arrow_status(const Status& why, std::string_view name) {
  std::string message = why.message();
  // status_of()'s callers put the name in front themselves.
  if (message.starts_with(fmt::format("{}: ", name))) message.erase(0, name.size() + 2);
  auto detail = std::make_shared<ReadError>(Status(why.code(), std::move(message)));
  return arrow::Status::IOError(why.message()).WithDetail(std::move(detail));
}

Status status_of(const arrow::Status& status) {
  if (status.detail() != nullptr && status.detail()->type_id() == ReadError::kType) {
    return static_cast<const ReadError&>(*status.detail()).why();
  }
  std::string message = status.message();
  // Messages of Arrow have several lines; ours have one.
  std::replace_if(
      message.begin(), message.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  message = "Arrow: " + message;
  if (status.IsOutOfMemory()) return Status(StatusCode::kResourceExhausted, std::move(message));
  if (status.IsNotImplemented()) return Status(StatusCode::kUnsupported, std::move(message));
  return Status(StatusCode::kCorruption, std::move(message));
}

arrow::MemoryPool* limited_memory() {
  static LimitedMemory pool;
  return &pool;
}

}  // namespace meg::preprocess
