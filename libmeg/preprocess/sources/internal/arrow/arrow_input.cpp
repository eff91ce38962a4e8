#include "libmeg/preprocess/sources/internal/arrow/arrow_input.h"

#include <arrow/buffer.h>

#include <algorithm>
#include <cstddef>
#include <span>

#include "libmeg/preprocess/sources/internal/arrow/arrow_guard.h"

namespace meg::preprocess {
namespace {

class ArrowInput : public arrow::io::RandomAccessFile {
 public:
  ArrowInput(const InputFile& file, int64_t size) : file_(file), size_(size) {}

  arrow::Status Close() override {
    is_closed_ = true;
    return arrow::Status::OK();
  }

  bool closed() const override { return is_closed_; }

  arrow::Result<int64_t> GetSize() override { return size_; }

  arrow::Result<int64_t> Tell() const override { return position_; }

  arrow::Status Seek(int64_t position) override {
    position_ = position;
    return arrow::Status::OK();
  }

  arrow::Result<int64_t> Read(int64_t count, void* out) override {
    ARROW_ASSIGN_OR_RAISE(const int64_t got, ReadAt(position_, count, out));
    position_ += got;
    return got;
  }

  arrow::Result<std::shared_ptr<arrow::Buffer>> Read(int64_t count) override {
    ARROW_ASSIGN_OR_RAISE(auto buffer, ReadAt(position_, count));
    position_ += buffer->size();
    return buffer;
  }

  arrow::Result<int64_t> ReadAt(int64_t position, int64_t count, void* out) override {
    const std::span into(static_cast<std::byte*>(out), static_cast<size_t>(left(position, count)));
    if (into.empty()) return 0;
    const Result<size_t> got = file_.read_at(position, into);
    if (!got.has_value()) return arrow_status(got.error(), file_.name());
    return static_cast<int64_t>(*got);
  }

  /// Allocates only for what is there, whatever the file says of itself.
  arrow::Result<std::shared_ptr<arrow::Buffer>> ReadAt(int64_t position, int64_t count) override {
    ARROW_ASSIGN_OR_RAISE(auto buffer,
                          arrow::AllocateResizableBuffer(left(position, count), limited_memory()));
    ARROW_ASSIGN_OR_RAISE(const int64_t got,
                          ReadAt(position, buffer->size(), buffer->mutable_data()));
    ARROW_RETURN_NOT_OK(buffer->Resize(got));
    return std::shared_ptr<arrow::Buffer>(std::move(buffer));
  }

 private:
  int64_t left(int64_t position, int64_t count) const {
    return position < 0 ? 0 : std::clamp<int64_t>(count, 0, std::max<int64_t>(size_ - position, 0));
  }

  const InputFile& file_;
  int64_t size_;
  int64_t position_ = 0;
  bool is_closed_ = false;
};

}  // namespace

Result<std::shared_ptr<arrow::io::RandomAccessFile>> arrow_input(const InputFile& file) {
  MEG_ASSIGN_OR_RETURN(const auto extent, file.extent());
  return std::shared_ptr<arrow::io::RandomAccessFile>(
      std::make_shared<ArrowInput>(file, extent.value_or(ByteRange()).end));
}

}  // namespace meg::preprocess
