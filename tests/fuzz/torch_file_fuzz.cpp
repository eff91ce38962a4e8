// Any bytes as a torch file, and as the data.pkl of one: opening must not crash; what opens can be
// read whole, and what it holds can be written again.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "libmeg/checkpoint/container/torch_file/torch_file.h"
#include "tests/checkpoint/container/memory_file.h"
#include "tests/checkpoint/container/zip_bytes.h"
#include "tests/fuzz/fuzz_check.h"

namespace {

constexpr int64_t kMaxElements = 4096;

void read_tensor(const meg::checkpoint::TorchFile& file, const meg::checkpoint::TensorView& view) {
  const int64_t count = std::min(view.numel(), kMaxElements);
  std::vector<std::byte> bytes(static_cast<size_t>(count * meg::dtype_size(view.dtype)));
  MEG_FUZZ_CHECK(file.read_elements(view, 0, bytes).ok());
  std::vector<std::byte> last(bytes.size());
  MEG_FUZZ_CHECK(file.read_elements(view, view.numel() - count, last).ok());
  const auto mapped = file.view(view);
  if (mapped) {
    MEG_FUZZ_CHECK(mapped->size() == static_cast<size_t>(view.bytes()));
    MEG_FUZZ_CHECK(std::equal(bytes.begin(), bytes.end(), mapped->begin()));
    MEG_FUZZ_CHECK(std::equal(last.rbegin(), last.rend(), mapped->rbegin()));
  }
  MEG_FUZZ_CHECK(!file.read_elements(view, view.numel() + 1, bytes).ok());
}

void read_everything(std::string_view bytes) {
  const meg::test::MemoryFile memory(bytes);
  const auto file = meg::checkpoint::TorchFile::open(
      memory.path(), {.budget = nullptr, .check_metadata_crcs = false});
  if (!file.has_value()) {
    MEG_FUZZ_CHECK(!file.error().message().empty());
    return;
  }
  for (size_t i = 0; i < file->storages().size(); ++i) {
    const meg::checkpoint::TorchStorage& storage = file->storages()[i];
    MEG_FUZZ_CHECK(storage.file_offset <= bytes.size());
    MEG_FUZZ_CHECK(storage.bytes <= bytes.size() - storage.file_offset);
    std::vector<std::byte> content(storage.bytes);
    const bool whole = storage.bytes % static_cast<uint64_t>(meg::dtype_size(storage.dtype)) == 0;
    const bool read = file->read_storage(static_cast<int>(i), 0, content).ok();
    MEG_FUZZ_CHECK(read || (file->is_byte_swapped() && !whole));
  }
  for (const meg::checkpoint::PickleId id : file->tensor_nodes())
    read_tensor(*file, *file->tensor(id));
  (void)file->check_crcs();
  (void)file->graph().describe(file->root());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  read_everything(bytes);
  meg::test::ZipBytes zip;
  zip.add("archive/data.pkl", bytes);
  zip.add("archive/byteorder", size % 2 == 0 ? "little" : "big");
  zip.add("archive/data/0", "a storage of 24 bytes...");
  zip.add("archive/data/1", "");
  zip.finish();
  read_everything(zip.bytes);
  return 0;
}
