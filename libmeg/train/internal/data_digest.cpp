#include "libmeg/train/internal/data_digest.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "libmeg/dataset/indexed_dataset.h"
#include "libmeg/io/digest.h"

// Ranks may have copies of the data on disks of their own. Were the copies to differ, each rank
// would train on other samples without any error, so the digests are compared before the first
// step.

namespace meg::train {
namespace {

// A file with more bytes than 256 blocks of 4 KiB (1 MiB) is represented by its size and these
// blocks, which begin in equal steps from the first byte to the last: a terabyte is checked in
// as many page reads as a gigabyte.
constexpr size_t kBlocks = 256;
constexpr size_t kBlockBytes = 4096;

void add_blocks(std::span<const std::byte> bytes, io::Digest& digest) {
  if (bytes.size() <= kBlocks * kBlockBytes) return digest.add(bytes);
  const size_t step = (bytes.size() - kBlockBytes) / (kBlocks - 1);
  for (size_t i = 0; i < kBlocks; ++i) digest.add(bytes.subspan(i * step, kBlockBytes));
}

/// Adds the ETag of an object, which stands for all its bytes.
void add_bin(const dataset::BinFile& bin, io::Digest& digest) {
  if (bin.object() == nullptr) return add_blocks(bin.mapped(), digest);
  digest.add(std::as_bytes(std::span(bin.object()->etag())));
}

Result<std::string> line_of(const std::string& prefix, const std::string& idx_cache) {
  // Random access keeps the system from reading ahead of each block.
  MEG_ASSIGN_OR_RETURN(
      const dataset::IndexedDataset data,
      dataset::IndexedDataset::open(
          prefix, {.access = io::MappedFile::Access::kRandom, .idx_cache = idx_cache}));
  io::Digest digest;
  add_blocks(data.idx().bytes(), digest);
  add_bin(data.bin(), digest);
  return fmt::format("{} of {} + {} bytes with digest {}", prefix, data.idx().size(),
                     data.bin().size(), digest.hex());
}

/// Weights come from a file of each machine as well: --data-args-path.
Status add_blend(std::string_view splits, const std::optional<samples::Blend>& blend,
                 const std::string& idx_cache, std::string& lines) {
  if (!blend.has_value()) return {};
  for (size_t i = 0; i < blend->prefixes.size(); ++i) {
    MEG_ASSIGN_OR_RETURN(const std::string line, line_of(blend->prefixes[i], idx_cache));
    lines += line;
    if (blend->weights.has_value()) lines += fmt::format(" with weight {}", (*blend->weights)[i]);
    lines += fmt::format(" for {}\n", splits);
  }
  return {};
}

}  // namespace

Result<std::string> data_digest(const samples::GptDataConfig& config) {
  const std::string idx_cache = config.object_storage_cache_path.value_or("");
  std::string lines;
  MEG_RETURN_IF_ERROR(add_blend("all splits", config.blend, idx_cache, lines));
  for (const samples::Split split : samples::kSplits) {
    MEG_RETURN_IF_ERROR(add_blend(samples::split_name(split),
                                  config.per_split[samples::split_number(split)], idx_cache,
                                  lines));
  }
  return lines;
}

}  // namespace meg::train
