#include "libmeg/checkpoint/verify/internal/entry_crcs.h"

#include <fmt/format.h>

#include <unordered_set>

#include "libmeg/checkpoint/container/zip/zip_archive.h"
#include "libmeg/io/crc32.h"

namespace meg::checkpoint {
namespace {

/// What a pickle may take at most; TorchFile::open has read it already.
constexpr uint64_t kLargestEntry = uint64_t{1} << 30;

/// Checks the CRCs of everything that the storages of a composed file are composed of.
std::vector<Problem> check_source_crcs(const TorchFile& file) {
  std::vector<Problem> problems;
  for (size_t i = 0; i < file.storages().size(); ++i) {
    const Status status = file.check_crc(static_cast<int>(i));
    if (!status.ok()) problems.push_back(problem_of(CheckpointCheck::kCrc, file.path(), status));
  }
  return problems;
}

}  // namespace

std::vector<Problem> check_entry_crcs(const TorchFile& file) {
  if (file.is_composed()) return check_source_crcs(file);
  if (!file.has_crcs()) return {};
  const Result<io::PooledFile::Pin> descriptor = file.file().pin();
  if (!descriptor.has_value()) {
    return {problem_of(CheckpointCheck::kFile, file.path(), descriptor.error())};
  }
  const Result<ZipArchive> archive = ZipArchive::open(**descriptor);
  if (!archive.has_value()) {
    return {problem_of(CheckpointCheck::kFile, file.path(), archive.error())};
  }
  std::unordered_set<uint64_t> storages;
  for (const TorchStorage& storage : file.storages()) {
    if (storage.bytes > 0) storages.insert(storage.file_offset);
  }
  std::vector<Problem> problems;
  for (const ZipEntry& entry : archive->entries()) {
    if (entry.size > 0 && storages.count(entry.data_offset) > 0) continue;
    const Result<std::vector<std::byte>> content =
        read_zip_entry(**descriptor, entry, kLargestEntry);
    if (!content.has_value()) {
      problems.push_back(problem_of(CheckpointCheck::kFile, file.path(), content.error()));
      continue;
    }
    const uint32_t crc = io::crc32(*content);
    if (crc == entry.crc) continue;
    problems.push_back({.check = CheckpointCheck::kCrc,
                        .file = file.path(),
                        .subject = entry.name,
                        .expected = fmt::format("CRC-32 {:08x} of {} bytes", entry.crc, entry.size),
                        .found = fmt::format("{:08x}", crc),
                        .likely_cause = "bytes changed after the file was written"});
  }
  return problems;
}

}  // namespace meg::checkpoint
