// Any bytes as the files of a share of near duplicates, signatures, what is removed and documents,
// after the sizes of the first two in 16 bits: errors of one line, or documents that were there.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "libmeg/cleaning/clean.h"
#include "tests/fuzz/fuzz_check.h"

namespace {

namespace fs = std::filesystem;
using meg::cleaning::CleanOptions;
using meg::cleaning::MinHashStage;

struct Folder {
  Folder() {
    char name[] = "/tmp/meg-fuzz-XXXXXX";
    MEG_FUZZ_CHECK(::mkdtemp(name) != nullptr);
    path = name;
  }

  ~Folder() { fs::remove_all(path); }

  void write(const std::string& ending, std::string_view bytes) const {
    std::ofstream(path + "/shard00000of00001." + ending, std::ios::binary) << bytes;
  }

  bool run(MinHashStage stage) const {
    CleanOptions options;
    options.near_duplicates = true;
    options.minhash_stage = stage;
    options.minhash_folder = path;
    options.memory = 1 << 20;
    if (stage == MinHashStage::kFilter) options.output = path + "/out.jsonl";
    const auto summary = meg::cleaning::clean(options, {});
    if (summary.has_value()) {
      MEG_FUZZ_CHECK(summary->kept + summary->steps.back().removed == summary->documents);
      return true;
    }
    MEG_FUZZ_CHECK(summary.error().code() == meg::StatusCode::kCorruption);
    MEG_FUZZ_CHECK(summary.error().message().find('\n') == std::string::npos);
    return false;
  }

  std::string path;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Folder folder;
  if (size < 4) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 4, size - 4);
  const size_t signatures = data[0] + 256U * data[1], removed = data[2] + 256U * data[3];
  if (signatures + removed > bytes.size()) return 0;
  folder.write("signatures", bytes.substr(0, signatures));
  folder.write("removed", bytes.substr(signatures, removed));
  folder.write("documents", bytes.substr(signatures + removed));
  folder.run(MinHashStage::kFilter);
  if (folder.run(MinHashStage::kClusters)) folder.run(MinHashStage::kFilter);
  return 0;
}
