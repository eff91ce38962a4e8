#include "libmeg/checkpoint/container/zip/internal/zip_directory.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <vector>

#include "libmeg/base/bytes.h"
#include "libmeg/checkpoint/container/zip/internal/zip_format.h"

namespace meg::checkpoint {
namespace {

/// Directories larger than this are refused: some million entries.
constexpr uint64_t kMaxDirectoryBytes = uint64_t{256} << 20;
constexpr uint64_t kMaxCommentBytes = 0xFFFF;

/// The end record, which ends the file, except that a comment may follow that reaches exactly to
/// its end.
struct EndRecord {
  uint64_t offset = 0;
  ZipDirectory directory;
};

std::optional<size_t> find_end_record(std::span<const std::byte> tail) {
  // Search from the back: the last one that fits is the one that other readers find.
  for (size_t at = tail.size() - zip::kEndSize + 1; at-- > 0;) {
    if (load_le<uint32_t>(&tail[at]) != zip::kEndSignature) continue;
    // The comment's length must lead exactly to the end, because the signature may also occur
    // inside a comment.
    if (at + zip::kEndSize + load_le<uint16_t>(&tail[at + 20]) == tail.size()) return at;
  }
  return std::nullopt;
}

Result<EndRecord> read_end_record(const io::FileSlice& file) {
  // The whole range of comments is searched only if the file's last bytes are no record.
  std::optional<size_t> at;
  std::vector<std::byte> tail;
  for (const uint64_t comment : {uint64_t{0}, kMaxCommentBytes}) {
    tail.resize(std::min(zip::kEndSize + comment, file.size()));
    if (tail.size() < zip::kEndSize) break;
    MEG_RETURN_IF_ERROR(file.read_exactly_at(file.size() - tail.size(), tail));
    at = find_end_record(tail);
    if (at) break;
  }
  if (!at) {
    return make_error(StatusCode::kCorruption,
                      "{}: expected a zip archive's end record, found none in the last {} bytes: "
                      "the file is truncated or not a zip archive",
                      file.name(), tail.size());
  }
  const std::byte* record = &tail[*at];
  if (load_le<uint16_t>(record + 4) != 0 || load_le<uint16_t>(record + 6) != 0 ||
      load_le<uint16_t>(record + 8) != load_le<uint16_t>(record + 10)) {
    return make_error(StatusCode::kUnsupported, "{}: zip archive of several disks", file.name());
  }
  return EndRecord{.offset = file.size() - tail.size() + *at,
                   .directory = {.entries = load_le<uint16_t>(record + 10),
                                 .offset = load_le<uint32_t>(record + 16),
                                 .size = load_le<uint32_t>(record + 12)}};
}

/// Replaces what the end record leaves to the zip64 one. Returns where the end records begin.
Result<uint64_t> read_end_64(const io::FileSlice& file, const EndRecord& end,
                             ZipDirectory* directory) {
  const auto refuse = [&](uint64_t at, std::string_view what) {
    return make_error(StatusCode::kCorruption, "{}: byte {}: zip64 end record: {}", file.name(), at,
                      what);
  };
  std::array<std::byte, zip::kLocator64Size> locator = {};
  const bool has_room = end.offset >= zip::kLocator64Size + zip::kEnd64Size;
  const uint64_t locator_at = has_room ? end.offset - zip::kLocator64Size : 0;
  if (has_room) MEG_RETURN_IF_ERROR(file.read_exactly_at(locator_at, locator));
  if (load_le<uint32_t>(locator.data()) != zip::kLocator64Signature) {
    if (directory->entries == zip::kIn64Short || directory->offset == zip::kIn64 ||
        directory->size == zip::kIn64) {
      return refuse(end.offset, "expected one before this byte, found none");
    }
    return end.offset;
  }
  if (load_le<uint32_t>(&locator[4]) != 0 || load_le<uint32_t>(&locator[16]) > 1) {
    return make_error(StatusCode::kUnsupported, "{}: zip archive of several disks", file.name());
  }
  const auto at = load_le<uint64_t>(&locator[8]);
  if (at > locator_at - zip::kEnd64Size) {
    return refuse(locator_at, fmt::format("expected it before this byte, found offset {}", at));
  }
  std::array<std::byte, zip::kEnd64Size> record = {};
  MEG_RETURN_IF_ERROR(file.read_exactly_at(at, record));
  if (load_le<uint32_t>(record.data()) != zip::kEnd64Signature) return refuse(at, "bad signature");
  // The size leaves out its own 8 bytes and the signature's 4. It leads to the locator, so nothing
  // can hide between the records.
  if (load_le<uint64_t>(&record[4]) != locator_at - at - 12) return refuse(at, "bad size");
  const ZipDirectory found = {.entries = load_le<uint64_t>(&record[32]),
                              .offset = load_le<uint64_t>(&record[48]),
                              .size = load_le<uint64_t>(&record[40])};
  if (load_le<uint64_t>(&record[16]) != 0 || load_le<uint64_t>(&record[24]) != found.entries) {
    return make_error(StatusCode::kUnsupported, "{}: zip archive of several disks", file.name());
  }
  // Either "see the wide record" or the same value: two readers must not see two archives in one
  // file.
  const auto agrees = [](uint64_t value, uint64_t in_64, uint64_t wide) {
    return value == in_64 || value == wide;
  };
  if (!agrees(directory->entries, zip::kIn64Short, found.entries) ||
      !agrees(directory->offset, zip::kIn64, found.offset) ||
      !agrees(directory->size, zip::kIn64, found.size)) {
    return refuse(at, "contradicts the end record");
  }
  *directory = found;
  return at;
}

}  // namespace

Result<ZipDirectory> find_zip_directory(const io::FileSlice& file) {
  MEG_ASSIGN_OR_RETURN(const EndRecord end, read_end_record(file));
  ZipDirectory directory = end.directory;
  MEG_ASSIGN_OR_RETURN(const uint64_t directory_end, read_end_64(file, end, &directory));
  // No bytes between directory and end record: readers that count from the front and those that
  // count from the back find the same one.
  if (directory.size > directory_end || directory.offset != directory_end - directory.size) {
    return make_error(
        StatusCode::kCorruption,
        "{}: zip directory: expected it to end at byte {}, found offset {} and size {}",
        file.name(), directory_end, directory.offset, directory.size);
  }
  // Check before anything is allocated by that number.
  if (directory.entries > directory.size / zip::kDirectoryHeaderSize) {
    return make_error(StatusCode::kCorruption,
                      "{}: zip directory of {} bytes: cannot hold the {} entries it claims",
                      file.name(), directory.size, directory.entries);
  }
  if (directory.size > kMaxDirectoryBytes) {
    return make_error(StatusCode::kResourceExhausted,
                      "{}: zip directory: expected at most {} bytes, found {}", file.name(),
                      kMaxDirectoryBytes, directory.size);
  }
  return directory;
}

}  // namespace meg::checkpoint
