#include "libmeg/checkpoint/zip_archive.h"

#include <libdeflate.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <span>

#include "libmeg/checkpoint/zip_format.h"
#include "libmeg/core/bytes.h"
#include "libmeg/core/printable.h"

namespace meg {
namespace {

using Bytes = std::span<const std::byte>;

/// Directories larger than this are refused: some million entries.
constexpr uint64_t kMaxDirectoryBytes = uint64_t{256} << 20;

/// Where the directory lies, from the end records.
struct Directory {
  uint64_t entries = 0;
  uint64_t offset = 0;
  uint64_t size = 0;
};

Result<std::vector<std::byte>> read_exactly(const FileDescriptor& file, uint64_t offset,
                                            uint64_t size) {
  std::vector<std::byte> bytes(size);
  MEG_ASSIGN_OR_RETURN(const size_t found, file.read_at(static_cast<int64_t>(offset), bytes));
  if (found < size) {
    return make_error(StatusCode::kCorruption, "{}: byte {}: expected {} bytes, found {}",
                      file.path(), offset, size, found);
  }
  return bytes;
}

/// The last record in `tail` that is an end record whose comment reaches exactly to the file's end.
std::optional<size_t> find_end_record(Bytes tail) {
  for (size_t at = tail.size() - zip::kEndSize + 1; at-- > 0;) {
    if (load_le<uint32_t>(&tail[at]) != zip::kEndSignature) continue;
    if (at + zip::kEndSize + load_le<uint16_t>(&tail[at + 20]) == tail.size()) return at;
  }
  return std::nullopt;
}

/// Replaces what the end record leaves to the zip64 one. end_offset: of the end record. Returns
/// where the end records begin.
Result<uint64_t> read_end64(const FileDescriptor& file, uint64_t end_offset, Directory* directory) {
  const bool needed = directory->entries == zip::kIn64Short || directory->offset == zip::kIn64 ||
                      directory->size == zip::kIn64;
  const auto no_record = [&]() -> Result<uint64_t> {
    if (!needed) return end_offset;
    return make_error(StatusCode::kCorruption,
                      "{}: byte {}: end of zip: expected a zip64 record before it, found none",
                      file.path(), end_offset);
  };
  if (end_offset < zip::kLocator64Size + zip::kEnd64Size) return no_record();
  const uint64_t locator_offset = end_offset - zip::kLocator64Size;
  MEG_ASSIGN_OR_RETURN(const auto locator, read_exactly(file, locator_offset, zip::kLocator64Size));
  if (load_le<uint32_t>(locator.data()) != zip::kLocator64Signature) return no_record();
  const auto offset = load_le<uint64_t>(&locator[8]);
  if (load_le<uint32_t>(&locator[4]) != 0 || load_le<uint32_t>(&locator[16]) > 1) {
    return make_error(StatusCode::kUnsupported, "{}: zip archive of several disks", file.path());
  }
  if (offset > locator_offset - zip::kEnd64Size) {
    return make_error(StatusCode::kCorruption,
                      "{}: byte {}: zip64 record: expected it before byte {}, found offset {}",
                      file.path(), locator_offset, locator_offset, offset);
  }
  MEG_ASSIGN_OR_RETURN(const auto record, read_exactly(file, offset, zip::kEnd64Size));
  if (load_le<uint32_t>(record.data()) != zip::kEnd64Signature ||
      load_le<uint64_t>(&record[4]) != locator_offset - offset - 12) {
    return make_error(StatusCode::kCorruption, "{}: byte {}: zip64 record: bad signature or size",
                      file.path(), offset);
  }
  const Directory found = {.entries = load_le<uint64_t>(&record[32]),
                           .offset = load_le<uint64_t>(&record[48]),
                           .size = load_le<uint64_t>(&record[40])};
  const auto agrees = [](uint64_t plain, uint64_t in_64, uint64_t wide) {
    return plain == in_64 || plain == wide;
  };
  if (load_le<uint64_t>(&record[24]) != found.entries || load_le<uint64_t>(&record[16]) != 0 ||
      !agrees(directory->entries, zip::kIn64Short, found.entries) ||
      !agrees(directory->offset, zip::kIn64, found.offset) ||
      !agrees(directory->size, zip::kIn64, found.size)) {
    return make_error(StatusCode::kCorruption,
                      "{}: byte {}: zip64 record: its values contradict the end record's",
                      file.path(), offset);
  }
  *directory = found;
  return offset;
}

Result<Directory> find_directory(const FileDescriptor& file, uint64_t file_size) {
  if (file_size < zip::kEndSize) {
    return make_error(StatusCode::kCorruption, "{}: expected a zip archive, found {} bytes",
                      file.path(), file_size);
  }
  // Without a comment the record is the file's last; only else the whole room of comments is read.
  std::optional<size_t> at;
  std::vector<std::byte> tail;
  for (const uint64_t reach : {zip::kEndSize, zip::kEndSize + 0xFFFF}) {
    const uint64_t length = std::min<uint64_t>(reach, file_size);
    MEG_ASSIGN_OR_RETURN(tail, read_exactly(file, file_size - length, length));
    at = find_end_record(tail);
    if (at) break;
  }
  if (!at) {
    return make_error(StatusCode::kCorruption,
                      "{}: expected a zip archive's end record, found none in the last {} bytes: "
                      "the file was cut short or is no zip archive",
                      file.path(), tail.size());
  }
  const std::byte* record = &tail[*at];
  if (load_le<uint32_t>(record + 4) != 0 ||
      load_le<uint16_t>(record + 8) != load_le<uint16_t>(record + 10)) {
    return make_error(StatusCode::kUnsupported, "{}: zip archive of several disks", file.path());
  }
  Directory directory = {.entries = load_le<uint16_t>(record + 10),
                         .offset = load_le<uint32_t>(record + 16),
                         .size = load_le<uint32_t>(record + 12)};
  const uint64_t end_offset = file_size - tail.size() + *at;
  MEG_ASSIGN_OR_RETURN(const uint64_t directory_end, read_end64(file, end_offset, &directory));
  if (directory.size > directory_end || directory.offset != directory_end - directory.size) {
    return make_error(
        StatusCode::kCorruption,
        "{}: zip directory: expected it to end at byte {}, found offset {} and size {}",
        file.path(), directory_end, directory.offset, directory.size);
  }
  if (directory.entries > directory.size / zip::kDirectoryHeaderSize) {
    return make_error(StatusCode::kCorruption,
                      "{}: zip directory of {} bytes: cannot hold the {} entries it claims",
                      file.path(), directory.size, directory.entries);
  }
  if (directory.size > kMaxDirectoryBytes) {
    return make_error(StatusCode::kResourceExhausted,
                      "{}: zip directory: expected at most {} bytes, found {}", file.path(),
                      kMaxDirectoryBytes, directory.size);
  }
  return directory;
}

bool is_safe_name(std::string_view name) {
  if (name.empty() || name.front() == '/') return false;
  if (name.find('\\') != name.npos || name.find('\0') != name.npos) return false;
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find('/', begin), name.size());
    if (name.substr(begin, end - begin) == "..") return false;
    begin = end + 1;
  }
  return true;
}

/// Fills the values that stand as kIn64 from the zip64 extra field, in the field's order.
Status read_extra64(Bytes extra, const std::string& where, std::span<uint64_t* const> values) {
  const bool needed = std::any_of(values.begin(), values.end(),
                                  [](const uint64_t* value) { return *value == zip::kIn64; });
  if (!needed) return {};
  ByteReader fields(extra, where);
  while (fields.remaining() >= 4) {
    MEG_ASSIGN_OR_RETURN(const auto id, fields.read<uint16_t>("extra field"));
    MEG_ASSIGN_OR_RETURN(const auto size, fields.read<uint16_t>("extra field"));
    MEG_ASSIGN_OR_RETURN(const Bytes field, fields.read_bytes(size, "extra field"));
    if (id != zip::kExtra64Id) continue;
    ByteReader numbers(field, where);
    for (uint64_t* value : values) {
      if (*value != zip::kIn64) continue;
      MEG_ASSIGN_OR_RETURN(*value, numbers.read<uint64_t>("zip64 extra field"));
    }
    return {};
  }
  return make_error(StatusCode::kCorruption, "{}: expected a zip64 extra field, found none", where);
}

Result<ZipEntry> read_directory_entry(ByteReader* reader, const std::string& path) {
  const size_t at = reader->position();
  MEG_ASSIGN_OR_RETURN(const Bytes header,
                       reader->read_bytes(zip::kDirectoryHeaderSize, "zip directory entry"));
  if (load_le<uint32_t>(header.data()) != zip::kDirectoryHeaderSignature) {
    return make_error(StatusCode::kCorruption, "{}: zip directory: byte {}: bad signature", path,
                      at);
  }
  MEG_ASSIGN_OR_RETURN(const Bytes name,
                       reader->read_bytes(load_le<uint16_t>(&header[28]), "entry name"));
  MEG_ASSIGN_OR_RETURN(const Bytes extra,
                       reader->read_bytes(load_le<uint16_t>(&header[30]), "extra fields"));
  MEG_ASSIGN_OR_RETURN(const Bytes comment,
                       reader->read_bytes(load_le<uint16_t>(&header[32]), "entry comment"));
  (void)comment;
  ZipEntry entry;
  entry.name.assign(reinterpret_cast<const char*>(name.data()), name.size());
  const std::string where = path + ": entry " + printable(entry.name, 200);
  if (!is_safe_name(entry.name)) {
    return make_error(StatusCode::kCorruption,
                      "{}: expected a relative path inside the archive's folder", where);
  }
  entry.method = load_le<uint16_t>(&header[10]);
  if (entry.method != zip::kMethodStored && entry.method != zip::kMethodDeflated) {
    return make_error(StatusCode::kUnsupported, "{}: compression method {}", where, entry.method);
  }
  if ((load_le<uint16_t>(&header[8]) & zip::kFlagEncrypted) != 0) {
    return make_error(StatusCode::kUnsupported, "{}: is encrypted", where);
  }
  entry.crc = load_le<uint32_t>(&header[16]);
  entry.compressed_size = load_le<uint32_t>(&header[20]);
  entry.size = load_le<uint32_t>(&header[24]);
  entry.header_offset = load_le<uint32_t>(&header[42]);
  uint64_t* const values[] = {&entry.size, &entry.compressed_size, &entry.header_offset};
  MEG_RETURN_IF_ERROR(read_extra64(extra, where, values));
  if (entry.is_stored() && entry.size != entry.compressed_size) {
    return make_error(StatusCode::kCorruption, "{}: stored, but {} bytes are kept as {}", where,
                      entry.size, entry.compressed_size);
  }
  return entry;
}

/// Compares the local header with the directory and finds where the data begin.
Status read_local_header(const FileDescriptor& file, uint64_t directory_offset, ZipEntry* entry) {
  const std::string where = fmt::format("{}: entry {}: local header at byte {}", file.path(),
                                        printable(entry->name, 200), entry->header_offset);
  const auto refuse = [&](std::string_view what) {
    return make_error(StatusCode::kCorruption, "{}: {}", where, what);
  };
  if (entry->header_offset > directory_offset ||
      directory_offset - entry->header_offset < zip::kLocalHeaderSize + entry->name.size()) {
    return refuse("lies outside the file");
  }
  // One read for the header of most writers; extra fields may be longer.
  const uint64_t room = directory_offset - entry->header_offset;
  MEG_ASSIGN_OR_RETURN(
      std::vector<std::byte> header,
      read_exactly(file, entry->header_offset,
                   std::min<uint64_t>(room, zip::kLocalHeaderSize + entry->name.size() + 160)));
  if (load_le<uint32_t>(header.data()) != zip::kLocalHeaderSignature) {
    return refuse("bad signature");
  }
  const size_t name_size = load_le<uint16_t>(&header[26]);
  const size_t extra_size = load_le<uint16_t>(&header[28]);
  const size_t header_size = zip::kLocalHeaderSize + name_size + extra_size;
  if (header_size > room || entry->compressed_size > room - header_size) {
    return refuse("expected the entry to end before the directory");
  }
  if (header_size > header.size()) {
    MEG_ASSIGN_OR_RETURN(header, read_exactly(file, entry->header_offset, header_size));
  }
  const std::string_view name(reinterpret_cast<const char*>(&header[zip::kLocalHeaderSize]),
                              name_size);
  if (name != entry->name) return refuse("bears the name " + printable(name));
  if (load_le<uint16_t>(&header[8]) != entry->method) return refuse("names another method");
  const auto flags = load_le<uint16_t>(&header[6]);
  if ((flags & zip::kFlagEncrypted) != 0) return refuse("says encrypted");
  const auto crc = load_le<uint32_t>(&header[14]);
  uint64_t compressed_size = load_le<uint32_t>(&header[18]);
  uint64_t size = load_le<uint32_t>(&header[22]);
  uint64_t* const values[] = {&size, &compressed_size};
  const Bytes extra = Bytes(header).subspan(zip::kLocalHeaderSize + name_size, extra_size);
  MEG_RETURN_IF_ERROR(read_extra64(extra, where, values));
  const bool is_blank = crc == 0 && compressed_size == 0 && size == 0;
  const bool agrees =
      crc == entry->crc && compressed_size == entry->compressed_size && size == entry->size;
  if (!agrees && !((flags & zip::kFlagDescriptor) != 0 && is_blank)) {
    return refuse("its CRC or sizes differ from the directory's");
  }
  entry->data_offset = entry->header_offset + header_size;
  return {};
}

Status check_overlaps(const std::vector<ZipEntry>& entries, const std::string& path) {
  std::vector<size_t> order(entries.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return entries[a].header_offset < entries[b].header_offset;
  });
  for (size_t i = 1; i < order.size(); ++i) {
    const ZipEntry& before = entries[order[i - 1]];
    const ZipEntry& after = entries[order[i]];
    if (before.data_offset + before.compressed_size > after.header_offset) {
      return make_error(StatusCode::kCorruption, "{}: entries {} and {} overlap at byte {}", path,
                        printable(before.name, 200), printable(after.name, 200),
                        after.header_offset);
    }
  }
  return {};
}

}  // namespace

Result<ZipArchive> ZipArchive::open(const FileDescriptor& file) {
  MEG_ASSIGN_OR_RETURN(const int64_t file_size, file.size());
  MEG_ASSIGN_OR_RETURN(const Directory directory,
                       find_directory(file, static_cast<uint64_t>(file_size)));
  MEG_ASSIGN_OR_RETURN(const auto bytes, read_exactly(file, directory.offset, directory.size));
  ZipArchive archive;
  archive.entries_.reserve(directory.entries);
  ByteReader reader(bytes, file.path() + ": zip directory");
  for (uint64_t i = 0; i < directory.entries; ++i) {
    MEG_ASSIGN_OR_RETURN(ZipEntry entry, read_directory_entry(&reader, file.path()));
    MEG_RETURN_IF_ERROR(read_local_header(file, directory.offset, &entry));
    archive.entries_.push_back(std::move(entry));
  }
  if (reader.remaining() != 0) {
    return make_error(StatusCode::kCorruption,
                      "{}: zip directory: expected {} entries, found {} bytes after them",
                      file.path(), directory.entries, reader.remaining());
  }
  MEG_RETURN_IF_ERROR(check_overlaps(archive.entries_, file.path()));
  for (size_t i = 0; i < archive.entries_.size(); ++i) {
    if (!archive.by_name_.emplace(archive.entries_[i].name, i).second) {
      return make_error(StatusCode::kCorruption, "{}: two entries bear the name {}", file.path(),
                        printable(archive.entries_[i].name, 200));
    }
  }
  return archive;
}

const ZipEntry* ZipArchive::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &entries_[found->second];
}

Result<std::vector<std::byte>> read_zip_entry(const FileDescriptor& file, const ZipEntry& entry,
                                              uint64_t limit) {
  const std::string where = file.path() + ": entry " + printable(entry.name, 200);
  if (entry.size > limit || entry.compressed_size > limit) {
    return make_error(StatusCode::kResourceExhausted, "{}: expected at most {} bytes, found {}",
                      where, limit, std::max(entry.size, entry.compressed_size));
  }
  MEG_ASSIGN_OR_RETURN(std::vector<std::byte> kept,
                       read_exactly(file, entry.data_offset, entry.compressed_size));
  if (entry.is_stored()) return kept;
  // Deflate packs at most 1032 bytes into one: nothing is allocated for a larger claim.
  if (entry.size / 1032 > entry.compressed_size) {
    return make_error(StatusCode::kCorruption, "{}: {} deflated bytes cannot hold {}", where,
                      entry.compressed_size, entry.size);
  }
  const std::unique_ptr<libdeflate_decompressor, decltype(&libdeflate_free_decompressor)> inflater(
      libdeflate_alloc_decompressor(), libdeflate_free_decompressor);
  std::vector<std::byte> content(entry.size);
  size_t found = 0;
  const libdeflate_result result = libdeflate_deflate_decompress(
      inflater.get(), kept.data(), kept.size(), content.data(), content.size(), &found);
  if (result != LIBDEFLATE_SUCCESS || found != content.size()) {
    return make_error(StatusCode::kCorruption, "{}: expected {} deflated bytes, found damage",
                      where, content.size());
  }
  return content;
}

}  // namespace meg
