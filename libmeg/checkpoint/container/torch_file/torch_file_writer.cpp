#include "libmeg/checkpoint/container/torch_file/torch_file_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "libmeg/base/bytes.h"
#include "libmeg/checkpoint/container/pickle/pickle_writer.h"
#include "libmeg/checkpoint/container/zip/zip_layout.h"
#include "libmeg/io/crc32.h"
#include "libmeg/io/pooled_file.h"
#include "libmeg/text/printable.h"

namespace meg::checkpoint {

struct TorchFileWriter::State {
  TorchFileLayout layout;
  ZipLayout archive;
  io::PooledFile file;
  std::vector<uint64_t> storage_bytes;
  std::vector<std::optional<uint32_t>> crcs;  // of each storage
};

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
    names = io::crc32(std::as_bytes(std::span(record.name)), names);
    contents = io::crc32(std::as_bytes(std::span(&record.crc, 1)), contents);
  }
  return fmt::format("{:020}{:020}", names, contents);
}

}  // namespace

Result<TorchFileLayout> lay_out(const TorchFileContent& content, const std::string& archive_name) {
  if (archive_name.empty() || archive_name.size() > 1024 || archive_name == "." ||
      archive_name == ".." ||
      archive_name.find_first_of(std::string("/\\\0", 3)) != std::string::npos) {
    return make_error(StatusCode::kInvalidArgument,
                      "archive name: expected a file's name without its ending, found {}",
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

TorchFileWriter::TorchFileWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}

TorchFileWriter::TorchFileWriter(TorchFileWriter&&) noexcept = default;
TorchFileWriter& TorchFileWriter::operator=(TorchFileWriter&&) noexcept = default;
TorchFileWriter::~TorchFileWriter() = default;

Result<TorchFileWriter> TorchFileWriter::create(const std::string& path,
                                                const TorchFileContent& content,
                                                TorchFileLayout layout) {
  auto state = std::make_unique<State>();
  state->layout = std::move(layout);
  const TorchFileLayout& made = state->layout;
  state->archive = lay_out_archive(made.archive_name, made.pickle.size(), content.storages());
  if (state->archive.file_size() != made.file_size) {
    return make_error(StatusCode::kInternal, "{}: the layout is not that of the content", path);
  }
  MEG_ASSIGN_OR_RETURN(state->file, io::PooledFile::create(path));
  MEG_ASSIGN_OR_RETURN(const auto file, state->file.pin());
  if (::ftruncate(file->get(), static_cast<off_t>(made.file_size)) != 0) {
    return errno_error(errno, path);
  }

  ZipLayout& archive = state->archive;
  const auto write_record = [&](size_t record, std::span<const std::byte> bytes) -> Status {
    archive.set_crc(record, io::crc32(bytes));
    return file->write_at(static_cast<int64_t>(archive.records()[record].data_offset), bytes);
  };
  const auto text = [](std::string_view bytes) { return std::as_bytes(std::span(bytes)); };
  MEG_RETURN_IF_ERROR(write_record(0, made.pickle));
  MEG_RETURN_IF_ERROR(write_record(1, text(kFormatVersion)));
  MEG_RETURN_IF_ERROR(write_record(2, text(kStorageAlignment)));
  MEG_RETURN_IF_ERROR(write_record(3, text(kByteOrder)));
  state->crcs.resize(content.storages().size());
  for (size_t i = 0; i < content.storages().size(); ++i) {
    const TorchFileContent::Storage& storage = content.storages()[i];
    state->storage_bytes.push_back(storage.bytes);
    if (storage.bytes == 0) state->crcs[i] = 0;
    if (storage.literal.empty()) continue;
    MEG_RETURN_IF_ERROR(write_record(kFirstStorage + i, storage.literal));
    state->crcs[i] = archive.records()[kFirstStorage + i].crc;
  }
  MEG_RETURN_IF_ERROR(write_record(archive.records().size() - 2, text(kVersion)));
  return TorchFileWriter(std::move(state));
}

const TorchFileLayout& TorchFileWriter::layout() const { return state_->layout; }

const io::PooledFile& TorchFileWriter::file() const { return state_->file; }

Status TorchFileWriter::write(int storage, uint64_t offset,
                              std::span<const std::byte> bytes) const {
  const auto index = static_cast<size_t>(storage);
  if (index >= state_->storage_bytes.size() || offset > state_->storage_bytes[index] ||
      bytes.size() > state_->storage_bytes[index] - offset) {
    return make_error(StatusCode::kOutOfRange, "{}: storage {}: {} bytes at {} lie outside it",
                      state_->file.path(), storage, bytes.size(), offset);
  }
  MEG_ASSIGN_OR_RETURN(const auto file, state_->file.pin());
  return file->write_at(static_cast<int64_t>(state_->layout.storage_offsets[index] + offset),
                        bytes);
}

void TorchFileWriter::set_crc(int storage, uint32_t crc) {
  state_->crcs[static_cast<size_t>(storage)] = crc;
}

Status TorchFileWriter::finish() {
  ZipLayout& archive = state_->archive;
  for (size_t i = 0; i < state_->crcs.size(); ++i) {
    if (!state_->crcs[i]) {
      return make_error(StatusCode::kInternal, "{}: storage {}: no CRC was told",
                        state_->file.path(), i);
    }
    archive.set_crc(kFirstStorage + i, *state_->crcs[i]);
  }
  const size_t last = archive.records().size() - 1;
  const std::string id = serialization_id(archive);
  archive.set_crc(last, io::crc32(std::as_bytes(std::span(id))));
  MEG_ASSIGN_OR_RETURN(auto file, state_->file.pin());
  const auto offset_of = [&](size_t record) {
    return static_cast<int64_t>(archive.records()[record].data_offset);
  };
  MEG_RETURN_IF_ERROR(file->write_at(offset_of(last), std::as_bytes(std::span(id))));
  for (size_t i = 0; i <= last; ++i) {
    const uint64_t at = i == 0 ? 0 : archive.records()[i - 1].data_end();
    MEG_RETURN_IF_ERROR(file->write_at(static_cast<int64_t>(at), archive.bytes_before(i)));
  }
  MEG_RETURN_IF_ERROR(file->write_at(static_cast<int64_t>(archive.records()[last].data_end()),
                                     archive.bytes_after_last()));
  file.reset();
  return state_->file.close();
}

}  // namespace meg::checkpoint
