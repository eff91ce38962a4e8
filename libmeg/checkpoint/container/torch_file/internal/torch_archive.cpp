#include <algorithm>
#include <string>

#include "libmeg/checkpoint/container/pickle/pickle_reader.h"
#include "libmeg/checkpoint/container/torch_file/internal/torch_file_parts.h"
#include "libmeg/io/crc32.h"
#include "libmeg/text/printable.h"

namespace meg::checkpoint {
namespace {

/// The folder that all entries lie in, with its slash.
Result<std::string> top_folder(const ZipArchive& archive, const std::string& path) {
  if (archive.entries().empty()) {
    return make_error(StatusCode::kCorruption, "{}: a zip archive without entries", path);
  }
  const std::string& first = archive.entries()[0].name;
  // Its name is that of the file when it was saved, and files are renamed: it is taken from the
  // entries.
  const std::string folder = first.substr(0, first.find('/') + 1);
  for (const ZipEntry& entry : archive.entries()) {
    if (folder.empty() || !entry.name.starts_with(folder)) {
      return make_error(StatusCode::kCorruption,
                        "{}: expected all entries in one folder as in files of torch.save, found "
                        "{} and {}",
                        path, text::printable(first, 200), text::printable(entry.name, 200));
    }
  }
  return folder;
}

/// Whether the archive says that its data are big-endian; files of torch < 2.1 say nothing.
Result<bool> is_big_endian(const io::FileDescriptor& file, const ZipEntry* entry) {
  if (entry == nullptr) return false;
  MEG_ASSIGN_OR_RETURN(const auto content, read_zip_entry(file, *entry, 64));
  const std::string_view order(reinterpret_cast<const char*>(content.data()), content.size());
  if (order == "little") return false;
  if (order == "big") return true;
  return make_error(StatusCode::kCorruption,
                    "{}: entry {}: expected \"little\" or \"big\", found {}", file.path(),
                    text::printable(entry->name, 200), text::printable(order));
}

Status place_storage(const ZipArchive& archive, const std::string& folder, const std::string& path,
                     bool has_crcs, TorchStorage* storage) {
  const std::string name = folder + "data/" + storage->key;
  const ZipEntry* entry = archive.find(name);
  if (entry == nullptr) {
    return make_error(StatusCode::kCorruption, "{}: expected an entry {}, found none", path,
                      text::printable(name, 200));
  }
  if (!entry->is_stored()) {
    return make_error(StatusCode::kUnsupported, "{}: entry {}: a compressed storage", path,
                      text::printable(name, 200));
  }
  // The pickle says how many elements, the archive how many bytes: tensors are checked against the
  // former, so both must agree before anything is read.
  if (entry->size != storage->bytes) {
    return make_error(StatusCode::kCorruption, "{}: entry {}: expected {} bytes, found {}", path,
                      text::printable(name, 200), storage->bytes, entry->size);
  }
  storage->file_offset = entry->data_offset;
  if (has_crcs) storage->crc = entry->crc;
  return {};
}

}  // namespace

Result<TorchFileParts> read_torch_archive(const io::FileSlice& slice, PickleBudget* budget,
                                          bool check_crc) {
  const io::FileDescriptor& file = slice.file();
  const std::string& path = slice.name();
  MEG_ASSIGN_OR_RETURN(ZipArchive archive, ZipArchive::open(slice));
  MEG_ASSIGN_OR_RETURN(const std::string folder, top_folder(archive, path));
  const ZipEntry* pickle = archive.find(folder + "data.pkl");
  if (pickle == nullptr) {
    return make_error(StatusCode::kCorruption, "{}: expected an entry {}, found none", path,
                      text::printable(folder + "data.pkl", 200));
  }
  TorchFileParts parts;
  // With set_crc32_options(False) torch writes 0 for all of them.
  parts.has_crcs = pickle->crc != 0;
  MEG_ASSIGN_OR_RETURN(parts.is_byte_swapped,
                       is_big_endian(file, archive.find(folder + "byteorder")));
  // Stored bytes are bounded by the file; deflated ones may claim a thousand times as many.
  const uint64_t max_bytes = pickle->is_stored() ? kMaxPickleBytes : budget->inflated_bytes();
  MEG_ASSIGN_OR_RETURN(const auto bytes, read_zip_entry(file, *pickle, max_bytes));
  if (!pickle->is_stored()) budget->take_inflated_bytes(bytes.size());
  const std::string name = path + ": " + text::printable(pickle->name, 200);
  if (parts.has_crcs && check_crc) {
    const uint32_t crc = io::crc32(bytes);
    if (crc != pickle->crc) {
      return make_error(StatusCode::kCorruption, "{}: CRC-32: expected {:08x}, found {:08x}", name,
                        pickle->crc, crc);
    }
  }
  MEG_ASSIGN_OR_RETURN(const PickleStream stream,
                       read_pickle(bytes, name, &parts.graph, budget->values()));
  budget->take_values(parts.graph.size());
  parts.root = stream.root;
  MEG_ASSIGN_OR_RETURN(parts.tensors, find_torch_tensors(parts.graph, name));
  for (TorchStorage& storage : parts.tensors.storages) {
    MEG_RETURN_IF_ERROR(place_storage(archive, folder, path, parts.has_crcs, &storage));
  }
  parts.entries = archive.entries();
  return parts;
}

}  // namespace meg::checkpoint
