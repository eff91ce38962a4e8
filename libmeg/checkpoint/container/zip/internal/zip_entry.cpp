#include <libdeflate.h>

#include <algorithm>
#include <memory>

#include "libmeg/checkpoint/container/zip/zip_archive.h"
#include "libmeg/text/printable.h"

namespace meg::checkpoint {

Result<std::vector<std::byte>> read_zip_entry(const io::FileDescriptor& file, const ZipEntry& entry,
                                              uint64_t limit) {
  const std::string where = file.path() + ": entry " + text::printable(entry.name, 200);
  if (entry.size > limit || entry.compressed_size > limit) {
    return make_error(StatusCode::kResourceExhausted, "{}: expected at most {} bytes, found {}",
                      where, limit, std::max(entry.size, entry.compressed_size));
  }
  std::vector<std::byte> kept(entry.compressed_size);
  MEG_RETURN_IF_ERROR(file.read_exactly_at(entry.data_offset, kept));
  if (entry.is_stored()) return kept;
  // Deflate packs at most 1032 bytes into one: nothing is allocated for a larger claim.
  if (entry.size / 1032 > entry.compressed_size) {
    return make_error(StatusCode::kCorruption, "{}: {} deflated bytes cannot hold {}", where,
                      entry.compressed_size, entry.size);
  }
  const std::unique_ptr<libdeflate_decompressor, decltype(&libdeflate_free_decompressor)> inflater(
      libdeflate_alloc_decompressor(), libdeflate_free_decompressor);
  if (inflater == nullptr) return Status(StatusCode::kResourceExhausted, where + ": no memory");
  std::vector<std::byte> content(entry.size);
  size_t found = 0;
  const libdeflate_result result = libdeflate_deflate_decompress(
      inflater.get(), kept.data(), kept.size(), content.data(), content.size(), &found);
  if (result != LIBDEFLATE_SUCCESS || found != content.size()) {
    return make_error(StatusCode::kCorruption, "{}: expected {} bytes deflated, found damage",
                      where, content.size());
  }
  return content;
}

}  // namespace meg::checkpoint
