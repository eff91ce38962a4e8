#include "libmeg/train/internal/data_digest.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "libmeg/io/digest.h"
#include "libmeg/io/mapped_file.h"

namespace meg::train {
namespace {

/// Of a file that has more than these stretches, which begin in equal steps.
constexpr size_t kStretches = 256;
constexpr size_t kStretchBytes = 4096;

void add_stretches(std::span<const std::byte> bytes, io::Digest& digest) {
  if (bytes.size() <= kStretches * kStretchBytes) return digest.add(bytes);
  const size_t step = (bytes.size() - kStretchBytes) / (kStretches - 1);
  for (size_t i = 0; i < kStretches; ++i) digest.add(bytes.subspan(i * step, kStretchBytes));
}

Result<std::string> line_of(const std::string& prefix) {
  io::Digest digest;
  std::vector<size_t> sizes;
  for (const char* ending : {".idx", ".bin"}) {
    MEG_ASSIGN_OR_RETURN(const io::MappedFile file,
                         io::MappedFile::open(prefix + ending, io::MappedFile::Access::kRandom));
    sizes.push_back(file.size());
    add_stretches(file.bytes(), digest);
  }
  return fmt::format("{} of {} + {} bytes with digest {}\n", prefix, sizes[0], sizes[1],
                     digest.hex());
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
      MEG_ASSIGN_OR_RETURN(const std::string line, line_of(prefix));
      lines += line;
    }
  }
  return lines;
}

}  // namespace meg::train
