#include "libmeg/checkpoint/state/tensor_sink.h"

#include <cstring>

namespace meg::checkpoint {
namespace {

Status check_inside(const TensorSink& sink, uint64_t offset, size_t bytes) {
  if (offset <= sink.bytes() && bytes <= sink.bytes() - offset) return Status();
  return make_error(StatusCode::kOutOfRange, "{} bytes at {} are outside the {} of a sink", bytes,
                    offset, sink.bytes());
}

class MemorySink final : public TensorSink {
 public:
  explicit MemorySink(std::span<std::byte> memory) : TensorSink(memory.size()), memory_(memory) {}

  Status write(uint64_t offset, std::span<const std::byte> bytes) override {
    MEG_RETURN_IF_ERROR(check_inside(*this, offset, bytes.size()));
    if (!bytes.empty()) std::memcpy(memory_.data() + offset, bytes.data(), bytes.size());
    return Status();
  }

  std::span<std::byte> memory() override { return memory_; }

 private:
  std::span<std::byte> memory_;
};

class FileSink final : public TensorSink {
 public:
  FileSink(const io::PooledFile& file, uint64_t offset, uint64_t bytes, uint32_t* crc)
      : TensorSink(bytes), file_(file), offset_(offset), crc_(crc) {}

  Status write(uint64_t offset, std::span<const std::byte> bytes) override {
    MEG_RETURN_IF_ERROR(check_inside(*this, offset, bytes.size()).with_prefix(file_.path()));
    MEG_ASSIGN_OR_RETURN(const auto open, file_.pin());
    return open->write_at(static_cast<int64_t>(offset_ + offset), bytes);
  }

  // Writers give their files the full size first, all of it a hole: zeros need no writing.
  bool starts_as_zeros() const override { return true; }

  bool wants_crc() const override { return crc_ != nullptr; }

  void set_crc(uint32_t crc) override { *crc_ = crc; }

  const io::PooledFile* file() const override { return &file_; }

 private:
  const io::PooledFile& file_;
  uint64_t offset_;
  uint32_t* crc_;
};

}  // namespace

std::unique_ptr<TensorSink> memory_sink(std::span<std::byte> memory) {
  return std::make_unique<MemorySink>(memory);
}

std::unique_ptr<TensorSink> file_sink(const io::PooledFile& file, uint64_t offset, uint64_t bytes,
                                      uint32_t* crc) {
  return std::make_unique<FileSink>(file, offset, bytes, crc);
}

}  // namespace meg::checkpoint
