#include "libmeg/checkpoint/container/torch_file/torch_archive_writer.h"

#include <utility>

#include "libmeg/base/bytes.h"
#include "libmeg/checkpoint/container/pickle/pickle_writer.h"
#include "libmeg/io/crc32.h"
#include "libmeg/text/printable.h"

namespace meg::checkpoint {
namespace {

constexpr uint64_t kMaxFileSize = uint64_t{1} << 62;
constexpr size_t kIdDigits = 40;

/// The entries in torch's order: the pickle and small ones, the storages, small ones.
constexpr size_t kFirstStorage = 4;

constexpr std::string_view kFormatVersion = "1";
constexpr std::string_view kStorageAlignment = "64";
constexpr std::string_view kByteOrder = "little";
constexpr std::string_view kVersion = "3\n";

ZipLayout lay_out_archive(const std::string& name, uint64_t pickle_size,
                          std::span<const TorchFileContent::Storage> storages) {
  ZipLayout archive;
  archive.add(name + "/data.pkl", pickle_size);
  archive.add(name + "/.format_version", kFormatVersion.size());
  archive.add(name + "/.storage_alignment", kStorageAlignment.size());
  archive.add(name + "/byteorder", kByteOrder.size());
  for (size_t i = 0; i < storages.size(); ++i) {
    archive.add(name + "/data/" + std::to_string(i), storages[i].bytes);
  }
  archive.add(name + "/version", kVersion.size());
  archive.add(name + "/.data/serialization_id", kIdDigits);
  return archive;
}

/// A fingerprint of names and contents, 40 digits as torch's, of another hash.
std::string serialization_id(const ZipLayout& archive) {
  uint32_t names = 0;
  uint32_t contents = 0;
  for (const ZipLayout::Record& record : archive.records()) {
    // Computed from existing checksums, because torch's own id would need a pass over all contents.
    names = io::crc32(std::as_bytes(std::span(record.name)), names);
    contents = io::crc32(std::as_bytes(std::span(&record.crc, 1)), contents);
  }
  return fmt::format("{:020}{:020}", names, contents);
}

}  // namespace

/// Everything but the storages' bytes and CRCs is known before anything is written: the pickle, all
/// offsets and the file's size. So storages are written in any order by any number of threads,
/// straight to their final place, and finish() adds the records between them, which contain the
/// CRCs.
Result<TorchFileLayout> lay_out(const TorchFileContent& content, const std::string& archive_name) {
  if (archive_name.empty() || archive_name.size() > 1024 || archive_name == "." ||
      archive_name == ".." ||
      archive_name.find_first_of(std::string("/\\\0", 3)) != std::string::npos) {
    return make_error(StatusCode::kInvalidArgument,
                      "archive name: expected a file name without its extension, found {}",
                      text::printable(archive_name));
  }
  uint64_t total = 0;
  for (size_t i = 0; i < content.storages().size(); ++i) {
    const TorchFileContent::Storage& storage = content.storages()[i];
    if (!storage.literal.empty() && storage.literal.size() != storage.bytes) {
      return make_error(StatusCode::kInvalidArgument,
                        "{}: storage {}: expected {} bytes of content, found {}", archive_name, i,
                        storage.bytes, storage.literal.size());
    }
    if (!checked_add(total, storage.bytes, &total) || total > kMaxFileSize) {
      return make_error(StatusCode::kOutOfRange, "{}: more than {} bytes of storages", archive_name,
                        kMaxFileSize);
    }
  }
  TorchFileLayout layout;
  layout.archive_name = archive_name;
  MEG_ASSIGN_OR_RETURN(layout.pickle, write_pickle(content.graph(), content.root));
  const ZipLayout archive = lay_out_archive(archive_name, layout.pickle.size(), content.storages());
  for (size_t i = 0; i < content.storages().size(); ++i) {
    layout.storage_offsets.push_back(archive.records()[kFirstStorage + i].data_offset);
  }
  layout.file_size = archive.file_size();
  return layout;
}

Result<TorchArchiveWriter> TorchArchiveWriter::create(const io::PooledFile& file, uint64_t begin,
                                                      const TorchFileContent& content,
                                                      TorchFileLayout layout) {
  TorchArchiveWriter made;
  made.file_ = &file;
  made.begin_ = begin;
  made.layout_ = std::move(layout);
  made.archive_ =
      lay_out_archive(made.layout_.archive_name, made.layout_.pickle.size(), content.storages());
  if (made.archive_.file_size() != made.layout_.file_size) {
    return make_error(StatusCode::kInternal, "{}: the layout is not that of the content",
                      file.path());
  }
  ZipLayout& archive = made.archive_;
  const auto write_record = [&](size_t record, std::span<const std::byte> bytes) -> Status {
    archive.set_crc(record, io::crc32(bytes));
    return made.write_at(archive.records()[record].data_offset, bytes);
  };
  const auto text = [](std::string_view bytes) { return std::as_bytes(std::span(bytes)); };
  MEG_RETURN_IF_ERROR(write_record(0, made.layout_.pickle));
  MEG_RETURN_IF_ERROR(write_record(1, text(kFormatVersion)));
  MEG_RETURN_IF_ERROR(write_record(2, text(kStorageAlignment)));
  MEG_RETURN_IF_ERROR(write_record(3, text(kByteOrder)));
  made.crcs_.resize(content.storages().size());
  for (size_t i = 0; i < content.storages().size(); ++i) {
    const TorchFileContent::Storage& storage = content.storages()[i];
    made.storage_bytes_.push_back(storage.bytes);
    // No transfer writes a byte of it and thus sets its CRC, which is 0.
    if (storage.bytes == 0) made.crcs_[i] = 0;
    if (storage.literal.empty()) continue;
    MEG_RETURN_IF_ERROR(write_record(kFirstStorage + i, storage.literal));
    made.crcs_[i] = archive.records()[kFirstStorage + i].crc;
  }
  MEG_RETURN_IF_ERROR(write_record(archive.records().size() - 2, text(kVersion)));
  return made;
}

Status TorchArchiveWriter::write(int storage, uint64_t offset,
                                 std::span<const std::byte> bytes) const {
  const auto index = static_cast<size_t>(storage);
  if (index >= storage_bytes_.size() || offset > storage_bytes_[index] ||
      bytes.size() > storage_bytes_[index] - offset) {
    return make_error(StatusCode::kOutOfRange, "{}: storage {}: {} bytes at {} are outside of it",
                      file_->path(), storage, bytes.size(), offset);
  }
  return write_at(layout_.storage_offsets[index] + offset, bytes);
}

Status TorchArchiveWriter::finish() {
  for (size_t i = 0; i < crcs_.size(); ++i) {
    if (!crcs_[i]) {
      return make_error(StatusCode::kInternal, "{}: storage {}: its CRC was not set", file_->path(),
                        i);
    }
    archive_.set_crc(kFirstStorage + i, *crcs_[i]);
  }
  const size_t last = archive_.records().size() - 1;
  // The last record, as its content depends on the CRCs of all others.
  const std::string id = serialization_id(archive_);
  archive_.set_crc(last, io::crc32(std::as_bytes(std::span(id))));
  MEG_RETURN_IF_ERROR(write_at(archive_.records()[last].data_offset, std::as_bytes(std::span(id))));
  for (size_t i = 0; i <= last; ++i) {
    const uint64_t at = i == 0 ? 0 : archive_.records()[i - 1].data_end();
    MEG_RETURN_IF_ERROR(write_at(at, archive_.bytes_before(i)));
  }
  return write_at(archive_.records()[last].data_end(), archive_.bytes_after_last());
}

}  // namespace meg::checkpoint
