#include "libmeg/dataset/provenance_writer.h"

#include <array>
#include <filesystem>
#include <system_error>
#include <utility>

#include "libmeg/base/bytes.h"
#include "libmeg/dataset/index_format.h"
#include "libmeg/dataset/internal/builder_state.h"
#include "libmeg/dataset/internal/dataset_lock.h"
#include "libmeg/io/atomic_file.h"
#include "libmeg/io/crc32.h"
#include "libmeg/io/mapped_file.h"
#include "libmeg/io/piece_writer.h"

namespace meg::dataset {
namespace {

/// Where the header has the CRC-32 of the .idx file that the places belong to.
constexpr int64_t kChecksumAt = 40;

static_assert(sizeof(DocumentPlace) == Provenance::kPlaceSize);

Status publish_file(io::AtomicFile& file, const std::string& prefix) {
  // The pair is published by now. A file of places that was written for another index of the same
  // name is recognised by this number and ignored.
  MEG_ASSIGN_OR_RETURN(const io::MappedFile index, io::MappedFile::open(prefix + ".idx"));
  std::array<char, 4> checksum{};
  store_le(checksum.data(), io::crc32(index.bytes()));
  MEG_RETURN_IF_ERROR(file.write_at(kChecksumAt, std::as_bytes(std::span(checksum))));
  return file.commit();
}

}  // namespace

struct ProvenanceWriter::State {
  State(std::string of, io::AtomicFile opened, int64_t count)
      : prefix(std::move(of)),
        file(std::move(opened)),
        documents(count),
        places(file, static_cast<int64_t>(Provenance::kHeaderSize) +
                         count * static_cast<int64_t>(Provenance::kPlaceSize)) {}

  std::string prefix;
  io::AtomicFile file;
  int64_t documents;
  io::PieceWriter places;
};

ProvenanceWriter::ProvenanceWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}

ProvenanceWriter::ProvenanceWriter(ProvenanceWriter&&) noexcept = default;
ProvenanceWriter& ProvenanceWriter::operator=(ProvenanceWriter&&) noexcept = default;
ProvenanceWriter::~ProvenanceWriter() = default;

Result<ProvenanceWriter> ProvenanceWriter::create(const std::string& path,
                                                  std::optional<int64_t> resume_at) {
  const std::string prefix = dataset_prefix(path);
  const std::string name = provenance_path(prefix);
  if (!resume_at.has_value()) {
    MEG_ASSIGN_OR_RETURN(io::AtomicFile file, io::AtomicFile::create_regular(name));
    return ProvenanceWriter(std::make_unique<State>(prefix, std::move(file), 0));
  }
  MEG_ASSIGN_OR_RETURN(io::AtomicFile file, io::AtomicFile::open_kept(name, kResumeSuffix));
  const int64_t size = static_cast<int64_t>(Provenance::kHeaderSize) +
                       *resume_at * static_cast<int64_t>(Provenance::kPlaceSize);
  // What was written after the last mark belongs to documents that will be written again.
  MEG_RETURN_IF_ERROR(file.truncate(*resume_at == 0 ? 0 : size));
  return ProvenanceWriter(std::make_unique<State>(prefix, std::move(file), *resume_at));
}

Status ProvenanceWriter::append(std::span<const DocumentPlace> places) {
  state_->documents += std::ssize(places);
  return state_->places.append(std::as_bytes(places));
}

Status ProvenanceWriter::flush() { return state_->places.flush(); }

Status ProvenanceWriter::sync() const {
  io::AtomicFile* const file = &state_->file;
  return io::AtomicFile::flush_all({&file, 1});
}

Status ProvenanceWriter::complete(const std::vector<std::string>& sources) {
  uint64_t end = 0;
  for (const std::string& source : sources) {
    MEG_RETURN_IF_ERROR(state_->places.append_value(end += source.size()));
  }
  for (const std::string& source : sources) {
    MEG_RETURN_IF_ERROR(state_->places.append(std::as_bytes(std::span(source))));
  }
  MEG_RETURN_IF_ERROR(flush());
  std::array<char, Provenance::kHeaderSize> header{};
  Provenance::kMagic.copy(header.data(), Provenance::kMagic.size());
  store_le(header.data() + 8, Provenance::kVersion);
  store_le(header.data() + 16, static_cast<uint64_t>(state_->documents));
  store_le(header.data() + 24, static_cast<uint64_t>(sources.size()));
  store_le(header.data() + 32, end);
  // Last, because only now the counts are known; until then the file has no magic and is no
  // provenance to anyone.
  return state_->file.write_at(0, std::as_bytes(std::span(header)));
}

Status ProvenanceWriter::publish() { return publish_file(state_->file, state_->prefix); }

Status ProvenanceWriter::publish_kept(const std::string& path) {
  const std::string prefix = dataset_prefix(path);
  const std::string name = provenance_path(prefix);
  std::error_code missing;
  if (!std::filesystem::exists(name + kResumeSuffix, missing)) return Status();
  MEG_ASSIGN_OR_RETURN(io::AtomicFile file, io::AtomicFile::open_kept(name, kResumeSuffix));
  return publish_file(file, prefix);
}

Status write_provenance(const std::string& prefix, std::span<const DocumentPlace> places,
                        const std::vector<std::string>& sources) {
  MEG_ASSIGN_OR_RETURN(const io::FileLock lock, lock_dataset(dataset_prefix(prefix)));
  std::error_code absent;
  if (std::filesystem::exists(provenance_path(prefix), absent)) {
    return make_error(StatusCode::kInvalidArgument,
                      "{}: expected no such file, found one: remove it to have it made again",
                      provenance_path(prefix));
  }
  MEG_ASSIGN_OR_RETURN(ProvenanceWriter writer, ProvenanceWriter::create(prefix));
  MEG_RETURN_IF_ERROR(writer.append(places));
  MEG_RETURN_IF_ERROR(writer.complete(sources));
  return writer.publish();
}

}  // namespace meg::dataset
