#include "libmeg/checkpoint/container/zip/zip_archive.h"

#include <algorithm>
#include <numeric>
#include <span>

#include "libmeg/base/bytes.h"
#include "libmeg/checkpoint/container/zip/internal/zip_directory.h"
#include "libmeg/checkpoint/container/zip/internal/zip_format.h"
#include "libmeg/text/printable.h"

// An archive says everything twice, in its directory and in front of each entry, and readers differ
// in which of both they believe. Here both must agree before any offset is used.

namespace meg::checkpoint {
namespace {

using Bytes = std::span<const std::byte>;

/// Nothing is extracted to the disk here; such names are refused because tools that extract would
/// write outside of their folder.
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

/// Fills the values that are given as kIn64 from the zip64 extra field, in the field's order.
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
      // The field holds only the values that the header leaves to it.
      if (*value != zip::kIn64) continue;
      MEG_ASSIGN_OR_RETURN(*value, numbers.read<uint64_t>("zip64 extra field"));
    }
    return {};
  }
  return make_error(StatusCode::kCorruption, "{}: expected a zip64 extra field, found none", where);
}

Result<ZipEntry> read_directory_entry(ByteReader* reader, const std::string& path) {
  // The offsets of fields are those of PKWARE's APPNOTE, 4.3.12 here and 4.3.7 for local headers.
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
  const std::string where = path + ": entry " + text::printable(entry.name, 200);
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
Status read_local_header(const io::FileSlice& file, uint64_t directory_offset, ZipEntry* entry) {
  const std::string where = fmt::format("{}: entry {}: local header at byte {}", file.name(),
                                        text::printable(entry->name, 200), entry->header_offset);
  const auto refuse = [&](std::string_view what) {
    return make_error(StatusCode::kCorruption, "{}: {}", where, what);
  };
  if (entry->header_offset > directory_offset ||
      directory_offset - entry->header_offset < zip::kLocalHeaderSize + entry->name.size()) {
    return refuse("lies outside the file");
  }
  // One read for the header of most writers; extra fields may be longer.
  const uint64_t room = directory_offset - entry->header_offset;
  const uint64_t usual = zip::kLocalHeaderSize + entry->name.size() + 160;
  std::vector<std::byte> header(std::min(room, usual));
  MEG_RETURN_IF_ERROR(file.read_exactly_at(entry->header_offset, header));
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
    header.resize(header_size);
    MEG_RETURN_IF_ERROR(file.read_exactly_at(entry->header_offset, header));
  }
  const std::string_view name(reinterpret_cast<const char*>(&header[zip::kLocalHeaderSize]),
                              name_size);
  if (name != entry->name) return refuse("bears the name " + text::printable(name));
  if (load_le<uint16_t>(&header[8]) != entry->method) return refuse("names another method");
  const auto flags = load_le<uint16_t>(&header[6]);
  if ((flags & zip::kFlagEncrypted) != 0) return refuse("says encrypted");
  const auto crc = load_le<uint32_t>(&header[14]);
  uint64_t compressed_size = load_le<uint32_t>(&header[18]);
  uint64_t size = load_le<uint32_t>(&header[22]);
  uint64_t* const values[] = {&size, &compressed_size};
  const Bytes extra = Bytes(header).subspan(zip::kLocalHeaderSize + name_size, extra_size);
  MEG_RETURN_IF_ERROR(read_extra64(extra, where, values));
  // Streaming writers put CRC and sizes into a descriptor after the data; any other difference
  // means that readers of local headers and readers of the directory see different files.
  const bool is_blank = crc == 0 && compressed_size == 0 && size == 0;
  const bool agrees =
      crc == entry->crc && compressed_size == entry->compressed_size && size == entry->size;
  if (!agrees && !((flags & zip::kFlagDescriptor) != 0 && is_blank)) {
    return refuse("its CRC or sizes differ from the directory's");
  }
  entry->data_offset = entry->header_offset + header_size;
  return {};
}

/// Overlapping entries are how a small archive claims endless contents, and how two names get
/// different views of the same bytes.
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
                        text::printable(before.name, 200), text::printable(after.name, 200),
                        after.header_offset);
    }
  }
  return {};
}

}  // namespace

Result<ZipArchive> ZipArchive::open(const io::FileDescriptor& file) {
  MEG_ASSIGN_OR_RETURN(const io::FileSlice slice, io::FileSlice::whole(file));
  return open(slice);
}

Result<ZipArchive> ZipArchive::open(const io::FileSlice& file) {
  MEG_ASSIGN_OR_RETURN(const ZipDirectory directory, find_zip_directory(file));
  std::vector<std::byte> bytes(directory.size);
  MEG_RETURN_IF_ERROR(file.read_exactly_at(directory.offset, bytes));
  ZipArchive archive;
  archive.entries_.reserve(directory.entries);
  ByteReader reader(bytes, file.name() + ": zip directory");
  for (uint64_t i = 0; i < directory.entries; ++i) {
    MEG_ASSIGN_OR_RETURN(ZipEntry entry, read_directory_entry(&reader, file.name()));
    MEG_RETURN_IF_ERROR(read_local_header(file, directory.offset, &entry));
    archive.entries_.push_back(std::move(entry));
  }
  if (reader.remaining() != 0) {
    return make_error(StatusCode::kCorruption,
                      "{}: zip directory: expected {} entries, found {} bytes after them",
                      file.name(), directory.entries, reader.remaining());
  }
  MEG_RETURN_IF_ERROR(check_overlaps(archive.entries_, file.name()));
  for (size_t i = 0; i < archive.entries_.size(); ++i) {
    if (!archive.by_name_.emplace(archive.entries_[i].name, i).second) {
      return make_error(StatusCode::kCorruption, "{}: two entries bear the name {}", file.name(),
                        text::printable(archive.entries_[i].name, 200));
    }
    // Offsets counted from the begin of the slice until here; who reads an entry has the file
    // alone.
    archive.entries_[i].header_offset += file.begin();
    archive.entries_[i].data_offset += file.begin();
  }
  return archive;
}

const ZipEntry* ZipArchive::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &entries_[found->second];
}

}  // namespace meg::checkpoint
