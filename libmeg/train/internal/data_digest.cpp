#include "libmeg/train/internal/data_digest.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "libmeg/dataset/indexed_dataset.h"
#include "libmeg/io/digest.h"

// Ranks may have copies of the data on disks of their own. Were the copies to differ, each rank
// would train on other samples without any error, so the digests are compared before the first
// step.

namespace meg::train {
namespace {

// A file with more bytes than 256 stretches of 4 KiB (1 MiB) is represented by its size and these
// stretches, which begin in equal steps from the first byte to the last: a terabyte is checked in
// as many page reads as a gigabyte.
constexpr size_t kStretches = 256;
constexpr size_t kStretchBytes = 4096;

void add_stretches(std::span<const std::byte> bytes, io::Digest& digest) {
  if (bytes.size() <= kStretches * kStretchBytes) return digest.add(bytes);
  const size_t step = (bytes.size() - kStretchBytes) / (kStretches - 1);
  for (size_t i = 0; i < kStretches; ++i) digest.add(bytes.subspan(i * step, kStretchBytes));
}

/// Adds the ETag of an object, which stands for all its bytes.
void add_bin(const dataset::BinFile& bin, io::Digest& digest) {
  if (bin.object() == nullptr) return add_stretches(bin.mapped(), digest);
  digest.add(std::as_bytes(std::span(bin.object()->etag())));
}

Result<std::string> line_of(const std::string& prefix, const std::string& idx_cache) {
  // Random access keeps the system from reading ahead of each stretch.
  MEG_ASSIGN_OR_RETURN(
      const dataset::IndexedDataset data,
      dataset::IndexedDataset::open(
          prefix, {.access = io::MappedFile::Access::kRandom, .idx_cache = idx_cache}));
  io::Digest digest;
  add_stretches(data.idx().bytes(), digest);
  add_bin(data.bin(), digest);
  return fmt::format("{} of {} + {} bytes with digest {}\n", prefix, data.idx().size(),
                     data.bin().size(), digest.hex());
}

}  // namespace

Result<std::string> data_digest(const samples::GptDataConfig& config) {
  std::vector<samples::Blend> blends;
  if (config.blend.has_value()) blends.push_back(*config.blend);
  for (const auto& blend : config.per_split) {
    if (blend.has_value()) blends.push_back(*blend);
  }
  std::string lines;
  for (const samples::Blend& blend : blends) {
    for (const std::string& prefix : blend.prefixes) {
      MEG_ASSIGN_OR_RETURN(const std::string line,
                           line_of(prefix, config.object_storage_cache_path.value_or("")));
      lines += line;
    }
  }
  return lines;
}

}  // namespace meg::train
