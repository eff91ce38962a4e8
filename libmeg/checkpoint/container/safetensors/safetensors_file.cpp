#include "libmeg/checkpoint/container/safetensors/safetensors_file.h"

#include <unistd.h>

#include <array>
#include <cerrno>

#include "libmeg/base/bytes.h"

namespace meg::checkpoint {
namespace {

Result<uint64_t> read_header_length(const io::PooledFile& file, uint64_t file_size) {
  std::array<std::byte, kSafetensorsLengthBytes> bytes{};
  MEG_ASSIGN_OR_RETURN(const auto open, file.pin());
  MEG_ASSIGN_OR_RETURN(const size_t found, open->read_at(0, bytes));
  if (found < bytes.size()) {
    return make_error(StatusCode::kCorruption,
                      "{}: byte 0: expected {} bytes of header length, found {}", file.path(),
                      kSafetensorsLengthBytes, found);
  }
  const auto length = load_le<uint64_t>(bytes.data());
  // Check before memory is taken for it: the first 8 bytes of any file are some length.
  if (length > kMaxSafetensorsHeader || length > file_size - kSafetensorsLengthBytes) {
    return make_error(StatusCode::kCorruption,
                      "{}: byte 0: header length: expected up to {} (the file's end) and {}, found "
                      "{}",
                      file.path(), file_size - kSafetensorsLengthBytes, kMaxSafetensorsHeader,
                      length);
  }
  return length;
}

}  // namespace

Result<SafetensorsFile> SafetensorsFile::open(const std::string& path) {
  SafetensorsFile opened;
  MEG_ASSIGN_OR_RETURN(opened.file_, io::PooledFile::open(path));
  const auto file_size = static_cast<uint64_t>(opened.file_.size());
  MEG_ASSIGN_OR_RETURN(const uint64_t length, read_header_length(opened.file_, file_size));
  std::string json(length, '\0');
  MEG_RETURN_IF_ERROR(opened.file_.read_exactly_at(kSafetensorsLengthBytes,
                                                   std::as_writable_bytes(std::span(json))));
  opened.data_begin_ = kSafetensorsLengthBytes + length;
  MEG_ASSIGN_OR_RETURN(opened.header_,
                       parse_safetensors_header(json, file_size - opened.data_begin_, path));
  return opened;
}

Status SafetensorsFile::read(const SafetensorsTensor& tensor, uint64_t offset,
                             std::span<std::byte> into) const {
  if (offset > tensor.bytes || into.size() > tensor.bytes - offset) {
    return make_error(StatusCode::kOutOfRange, "{}: {}: {} bytes at {} are outside of it", path(),
                      tensor.name, into.size(), offset);
  }
  return file_.read_exactly_at(file_offset(tensor) + offset, into);
}

Result<SafetensorsWriter> SafetensorsWriter::create(const std::string& path,
                                                    SafetensorsLayout layout) {
  SafetensorsWriter writer;
  MEG_ASSIGN_OR_RETURN(writer.file_, io::PooledFile::create(path));
  writer.layout_ = std::move(layout);
  const SafetensorsLayout& made = writer.layout_;
  MEG_ASSIGN_OR_RETURN(const auto open, writer.file_.pin());
  // All of it a hole first: threads write tensors in any order, and what is never written reads as
  // zeros.
  if (::ftruncate(open->get(), static_cast<off_t>(made.file_size)) != 0) {
    return errno_error(errno, path);
  }
  MEG_RETURN_IF_ERROR(writer.file_.write_at(0, std::as_bytes(std::span(made.head))));
  return writer;
}

Status SafetensorsWriter::write(size_t tensor, uint64_t offset,
                                std::span<const std::byte> bytes) const {
  if (tensor >= layout_.bytes.size() || offset > layout_.bytes[tensor] ||
      bytes.size() > layout_.bytes[tensor] - offset) {
    return make_error(StatusCode::kOutOfRange, "{}: tensor {}: {} bytes at {} are outside of it",
                      file_.path(), tensor, bytes.size(), offset);
  }
  return file_.write_at(static_cast<int64_t>(layout_.offsets[tensor] + offset), bytes);
}

}  // namespace meg::checkpoint
