#include "libmeg/checkpoint/convert/virtual_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace meg::checkpoint {
namespace {

/// Bytes of the largest element.
constexpr size_t kLargestElement = 16;

/// Reads bytes [offset, offset + into.size()) of a part. Sources read whole elements: of those that
/// the range cuts, only a part is taken.
Status read_bytes(const TensorSource& source, uint64_t offset, std::span<std::byte> into) {
  const auto size = static_cast<uint64_t>(dtype_size(source.dtype()));
  std::array<std::byte, kLargestElement> element;
  const auto read_cut = [&](uint64_t skipped, size_t count) {
    const auto whole = std::span(element).first(size);
    MEG_RETURN_IF_ERROR(source.read(static_cast<int64_t>(offset / size), whole));
    std::memcpy(into.data(), whole.data() + skipped, count);
    offset += count;
    into = into.subspan(count);
    return Status();
  };
  if (const uint64_t skipped = offset % size; skipped != 0 && !into.empty()) {
    MEG_RETURN_IF_ERROR(read_cut(skipped, std::min<size_t>(size - skipped, into.size())));
  }
  const size_t whole = into.size() / size * size;
  if (whole > 0) {
    MEG_RETURN_IF_ERROR(source.read(static_cast<int64_t>(offset / size), into.first(whole)));
    offset += whole;
    into = into.subspan(whole);
  }
  return into.empty() ? Status() : read_cut(0, into.size());
}

}  // namespace

VirtualFile::VirtualFile(std::string name, std::vector<Part> parts)
    : name_(std::move(name)), parts_(std::move(parts)) {
  std::erase_if(parts_, [](const Part& part) { return part.source->elements() == 0; });
  std::ranges::sort(parts_, {}, &Part::offset);
  if (!parts_.empty()) size_ = parts_.back().end();
}

std::span<const VirtualFile::Part> VirtualFile::parts_of(uint64_t offset, uint64_t bytes) const {
  const auto first = std::ranges::upper_bound(parts_, offset, {}, &Part::end);
  const auto last = std::ranges::lower_bound(parts_, offset + bytes, {}, &Part::offset);
  return {first, std::max(first, last)};
}

Status VirtualFile::read(uint64_t offset, std::span<std::byte> into) const {
  for (const Part& part : parts_of(offset, into.size())) {
    const size_t count = std::min<size_t>(part.end() - offset, into.size());
    MEG_RETURN_IF_ERROR(read_bytes(*part.source, offset - part.offset, into.first(count)));
    offset += count;
    into = into.subspan(count);
  }
  return Status();
}

std::shared_ptr<const TensorSource> text_source(std::string text) {
  const auto owner = std::make_shared<const std::string>(std::move(text));
  return memory_source(DType::kUint8, std::as_bytes(std::span(*owner)), owner);
}

VirtualFile text_file(std::string name, std::string text) {
  return {std::move(name), {{.offset = 0, .source = text_source(std::move(text))}}};
}

Result<VirtualFile> copied_file(std::string name, const std::string& path) {
  MEG_ASSIGN_OR_RETURN(io::PooledFile opened, io::PooledFile::open(path));
  const auto file = std::make_shared<const io::PooledFile>(std::move(opened));
  return VirtualFile(std::move(name),
                     {{.offset = 0, .source = file_source(file, 0, DType::kUint8, file->size())}});
}

}  // namespace meg::checkpoint
