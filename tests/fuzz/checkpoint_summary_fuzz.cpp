// Any bytes as the data.pkl of a torch file: whatever opens can be summarized, drawn as a tree, and
// read for its statistics, within the bounds that are promised.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "libmeg/checkpoint/inspect/checkpoint_statistics.h"
#include "libmeg/checkpoint/inspect/checkpoint_summary.h"
#include "libmeg/checkpoint/inspect/named_code.h"
#include "libmeg/checkpoint/inspect/pickle_outline.h"
#include "tests/checkpoint/container/memory_file.h"
#include "tests/checkpoint/container/zip_bytes.h"
#include "tests/fuzz/fuzz_check.h"

namespace {

constexpr size_t kMaxLines = 100;
/// Hostile views repeat elements up to a limit of their own; reading that takes too long here.
constexpr int64_t kMaxElements = 1 << 16;

void check_summary(const meg::checkpoint::CheckpointSummary& summary) {
  const meg::checkpoint::FileSummary& file = summary.files[0];
  MEG_FUZZ_CHECK(file.groups.size() == file.contents.tensors.size());
  MEG_FUZZ_CHECK(meg::checkpoint::outline_of(*file.file, kMaxLines).lines.size() <= kMaxLines);
  for (const meg::checkpoint::NamedCode& code : meg::checkpoint::named_code(file.file->graph())) {
    MEG_FUZZ_CHECK(!code.name.empty());
    MEG_FUZZ_CHECK(code.is_usual || code.calls == 0 || !code.first_call.empty());
  }
  int64_t elements = 0;
  for (const meg::checkpoint::NamedTensor& tensor : file.contents.tensors) {
    MEG_FUZZ_CHECK(tensor.elements >= 0);
    if (tensor.elements > kMaxElements || (elements += tensor.elements) > kMaxElements) return;
  }
  const auto statistics = meg::checkpoint::checkpoint_statistics(summary);
  MEG_FUZZ_CHECK(statistics.has_value());
  for (const meg::checkpoint::NamedStatistics& tensor : *statistics) {
    const meg::checkpoint::TensorStatistics& found = tensor.statistics;
    MEG_FUZZ_CHECK(found.finite() >= 0 && found.zero <= found.finite());
    MEG_FUZZ_CHECK(found.finite() == 0 || found.min <= found.max);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  meg::test::ZipBytes zip;
  zip.add("archive/data.pkl", std::string_view(reinterpret_cast<const char*>(data), size));
  zip.add("archive/data/0", "a storage of 24 bytes...");
  zip.finish();
  const meg::test::MemoryFile memory(zip.bytes);
  const auto folder = meg::checkpoint::find_checkpoint(memory.path());
  MEG_FUZZ_CHECK(folder.has_value());
  const auto summary = meg::checkpoint::summarize_checkpoint(*folder);
  if (summary.has_value()) check_summary(*summary);
  return 0;
}
