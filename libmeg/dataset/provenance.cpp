#include "libmeg/dataset/provenance.h"

#include <algorithm>
#include <utility>

#include "libmeg/base/bytes.h"
#include "libmeg/dataset/index_format.h"
#include "libmeg/dataset/internal/dataset_file.h"
#include "libmeg/io/crc32.h"

namespace meg::dataset {
namespace {

/// Counts beyond this are damage, and sizes made of them do not overflow.
constexpr uint64_t kMaxCount = uint64_t{1} << 48;

}  // namespace

std::string provenance_path(const std::string& prefix) {
  return dataset_prefix(prefix) + ".provenance";
}

Result<std::optional<Provenance>> Provenance::open_beside(const std::string& prefix) {
  const std::string path = provenance_path(prefix);
  MEG_ASSIGN_OR_RETURN(std::optional<io::MappedFile> file, map_if_there(path));
  if (!file.has_value()) return std::optional<Provenance>();
  Provenance provenance;
  provenance.file_ = std::move(*file);
  MEG_RETURN_IF_ERROR(provenance.check(dataset_prefix(prefix)).with_prefix(path));
  return std::optional(std::move(provenance));
}

Status Provenance::check(const std::string& prefix) {
  const auto damaged = [](std::string_view what) {
    return make_error(StatusCode::kCorruption, "damaged: {}", what);
  };
  const std::string_view text = file_.text();
  const char* const begin = text.data();
  if (text.size() < kHeaderSize || !text.starts_with(kMagic)) {
    return damaged("expected a provenance file's begin");
  }
  if (load_le<uint64_t>(begin + 8) != kVersion) return damaged("expected version 1");
  const auto documents = load_le<uint64_t>(begin + 16);
  const auto sources = load_le<uint64_t>(begin + 24);
  const auto name_bytes = load_le<uint64_t>(begin + 32);
  if (documents > kMaxCount || sources > kMaxCount || name_bytes > kMaxCount ||
      text.size() != kHeaderSize + kPlaceSize * documents + 8 * sources + name_bytes) {
    return make_error(StatusCode::kCorruption,
                      "damaged: {} bytes do not agree with {} documents and {} sources",
                      text.size(), documents, sources);
  }
  documents_ = static_cast<int64_t>(documents);
  sources_ = static_cast<int64_t>(sources);
  ends_ = kHeaderSize + kPlaceSize * documents;
  names_ = ends_ + 8 * sources;
  // Check all names once, so that source() may cut out any of them unchecked.
  for (uint64_t i = 0, last = 0; i < sources; ++i) {
    const auto end = load_le<uint64_t>(begin + ends_ + 8 * i);
    if (end < last || end > name_bytes) return damaged("expected the ends of names in order");
    last = end;
  }
  // A pair may be replaced without its provenance, by Megatron's own tools for one; documents of
  // the new pair must not be traced to sources of the old one.
  MEG_ASSIGN_OR_RETURN(const io::MappedFile index, map_dataset_file(prefix + ".idx"));
  if (io::crc32(index.bytes()) == load_le<uint32_t>(begin + 40)) return Status();
  return make_error(StatusCode::kCorruption,
                    "belongs to a different dataset than {}.idx: remove it", prefix);
}

Result<DocumentPlace> Provenance::place(int64_t document) const {
  if (document < 0 || document >= documents_) {
    return make_error(StatusCode::kOutOfRange, "{}: expected a document below {}, found {}",
                      file_.path(), documents_, document);
  }
  const char* const at =
      file_.text().data() + kHeaderSize + kPlaceSize * static_cast<size_t>(document);
  const DocumentPlace place{.at = load_le<uint64_t>(at),
                            .source = load_le<uint32_t>(at + 8),
                            .row = load_le<uint32_t>(at + 12)};
  if (place.source == DocumentPlace::kUnknownSource || place.source < sources_) return place;
  return make_error(StatusCode::kCorruption,
                    "{}: document {}: expected one of {} sources, found {}", file_.path(), document,
                    sources_, place.source);
}

std::string_view Provenance::source(int64_t source) const {
  const char* const begin = file_.text().data();
  const auto end_of = [&](int64_t i) {
    return i < 0 ? size_t{0} : load_le<uint64_t>(begin + ends_ + 8 * static_cast<size_t>(i));
  };
  const size_t first = end_of(source - 1);
  return {begin + names_ + first, end_of(source) - first};
}

}  // namespace meg::dataset
