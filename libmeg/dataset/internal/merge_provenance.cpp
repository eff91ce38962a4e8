#include "libmeg/dataset/internal/merge_provenance.h"

#include <utility>

#include "libmeg/dataset/indexed_dataset.h"
#include "libmeg/dataset/internal/dataset_file.h"

namespace meg::dataset {
namespace {

Status append_known(const Provenance& from, SourceNames& sources, ProvenanceWriter& to) {
  const std::vector<uint32_t> numbers = sources.add(from);
  for (int64_t document = 0; document < from.document_count(); ++document) {
    MEG_ASSIGN_OR_RETURN(const DocumentPlace place, numbered_place(from, document, numbers));
    MEG_RETURN_IF_ERROR(to.append({&place, 1}));
  }
  return Status();
}

}  // namespace

std::vector<uint32_t> SourceNames::add(const Provenance& from) {
  std::vector<uint32_t> numbers;
  for (int64_t i = 0; i < from.source_count(); ++i) {
    const auto [place, is_new] = numbers_.try_emplace(std::string(from.source(i)), names_.size());
    if (is_new) names_.push_back(place->first);
    numbers.push_back(static_cast<uint32_t>(place->second));
  }
  return numbers;
}

Result<DocumentPlace> numbered_place(const Provenance& from, int64_t document,
                                     const std::vector<uint32_t>& numbers) {
  MEG_ASSIGN_OR_RETURN(DocumentPlace place, from.place(document));
  if (place.source != DocumentPlace::kUnknownSource) place.source = numbers[place.source];
  return place;
}

Result<std::optional<ProvenanceWriter>> merged_provenance(const std::vector<std::string>& prefixes,
                                                          const std::string& output_prefix,
                                                          std::vector<std::string>& notes) {
  bool has_any = false;
  for (const std::string& prefix : prefixes) {
    MEG_ASSIGN_OR_RETURN(const auto file, map_if_there(provenance_path(prefix)));
    has_any = has_any || file.has_value();
  }
  if (!has_any) return std::optional<ProvenanceWriter>();
  MEG_ASSIGN_OR_RETURN(ProvenanceWriter to, ProvenanceWriter::create(output_prefix));
  SourceNames sources;
  for (const std::string& prefix : prefixes) {
    MEG_ASSIGN_OR_RETURN(const IndexedDataset set, IndexedDataset::open(prefix));
    MEG_ASSIGN_OR_RETURN(const std::optional<Provenance> from, Provenance::open_beside(prefix));
    if (from.has_value() && from->document_count() == set.document_count()) {
      MEG_RETURN_IF_ERROR(append_known(*from, sources, to));
      continue;
    }
    if (from.has_value()) {
      return make_error(StatusCode::kCorruption, "{}: expected {} documents, found {}",
                        provenance_path(prefix), set.document_count(), from->document_count());
    }
    notes.push_back(
        fmt::format("{}: no provenance: the sources of its documents are unknown", prefix));
    // A place for each document, known or not, so that a document's number stays its place's.
    const DocumentPlace unknown;
    for (int64_t i = 0; i < set.document_count(); ++i) {
      MEG_RETURN_IF_ERROR(to.append({&unknown, 1}));
    }
  }
  MEG_RETURN_IF_ERROR(to.complete(sources.names()));
  return std::optional(std::move(to));
}

}  // namespace meg::dataset
