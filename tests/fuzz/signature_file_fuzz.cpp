// Any bytes as the files of a share of near duplicates, signatures, what is removed, shingles,
// pairs of every bucket and documents, after the sizes of the first four in 16 bits: errors of one
// line, or documents that were there.

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
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

  void write(const std::string& name, std::string_view bytes) const {
    std::ofstream(path + "/" + name, std::ios::binary) << bytes;
  }

  bool run(MinHashStage stage, std::optional<double> verify_jaccard = std::nullopt) const {
    CleanOptions options;
    options.near_duplicates = true;
    options.minhash_stage = stage;
    options.verify_jaccard = verify_jaccard;
    options.minhash_folder = path;
    options.memory = 1 << 20;
    if (stage == MinHashStage::kFilter) options.output = path + "/out.jsonl";
    const auto summary = meg::cleaning::clean(options, {});
    if (summary.has_value()) {
      MEG_FUZZ_CHECK(summary->kept + summary->steps.back().removed == summary->documents);
      return true;
    }
    const meg::StatusCode code = summary.error().code();
    // kInvalidArgument: signatures without shingles, which are asked for.
    MEG_FUZZ_CHECK(code == meg::StatusCode::kCorruption ||
                   (verify_jaccard && code == meg::StatusCode::kInvalidArgument));
    MEG_FUZZ_CHECK(summary.error().message().find('\n') == std::string::npos);
    return false;
  }

  std::string path;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Folder folder;
  constexpr size_t kSizes = 4;
  if (size < 2 * kSizes) return 0;
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  bytes.remove_prefix(2 * kSizes);
  const char* const names[kSizes] = {"shard00000of00001.signatures", "shard00000of00001.removed",
                                     "shard00000of00001.shingles", "bucket00.pairs"};
  for (size_t i = 0; i < kSizes; ++i) {
    const size_t part = data[2 * i] + 256U * data[2 * i + 1];
    if (part > bytes.size()) return 0;
    folder.write(names[i], bytes.substr(0, part));
    bytes.remove_prefix(part);
  }
  for (int i = 1; i < 14; ++i) {
    std::filesystem::copy_file(folder.path + "/bucket00.pairs",
                               folder.path + fmt::format("/bucket{:02}.pairs", i),
                               fs::copy_options::overwrite_existing);
  }
  folder.write("shard00000of00001.documents", bytes);
  folder.run(MinHashStage::kFilter);
  if (folder.run(MinHashStage::kClusters)) folder.run(MinHashStage::kFilter);
  for (const std::optional<double> verify_jaccard : {std::optional<double>(0.5), {}}) {
    if (!folder.run(MinHashStage::kBuckets, verify_jaccard)) continue;
    if (folder.run(MinHashStage::kClusters)) folder.run(MinHashStage::kFilter);
  }
  return 0;
}
