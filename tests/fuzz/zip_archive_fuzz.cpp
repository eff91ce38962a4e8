// Any bytes as a zip archive: opening must not crash; what opens must hold together, entries can be
// read, and none reaches outside the file.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "libmeg/checkpoint/container/zip/zip_archive.h"
#include "tests/checkpoint/container/memory_file.h"
#include "tests/fuzz/fuzz_check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr uint64_t kLimit = 1 << 16;
  const meg::test::MemoryFile memory({reinterpret_cast<const char*>(data), size});
  const auto file = meg::io::FileDescriptor::open_for_reading(memory.path());
  MEG_FUZZ_CHECK(file.has_value());
  const auto archive = meg::checkpoint::ZipArchive::open(*file);
  if (!archive.has_value()) {
    MEG_FUZZ_CHECK(!archive.error().message().empty());
    return 0;
  }
  for (const meg::checkpoint::ZipEntry& entry : archive->entries()) {
    MEG_FUZZ_CHECK(archive->find(entry.name) == &entry);
    MEG_FUZZ_CHECK(entry.data_offset <= size && entry.compressed_size <= size - entry.data_offset);
    const auto content = meg::checkpoint::read_zip_entry(*file, entry, kLimit);
    if (content.has_value()) MEG_FUZZ_CHECK(content->size() == entry.size);
    if (entry.is_stored() && entry.size <= kLimit) MEG_FUZZ_CHECK(content.has_value());
  }
  return 0;
}
