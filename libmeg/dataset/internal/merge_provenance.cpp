#include "libmeg/dataset/internal/merge_provenance.h"

#include <map>
#include <utility>

#include "libmeg/dataset/indexed_dataset.h"
#include "libmeg/dataset/internal/dataset_file.h"

namespace meg::dataset {
namespace {

/// Each name once, in the order in which they come.
class Sources {
 public:
  uint32_t number_of(std::string_view name) {
    const auto [place, is_new] = numbers_.try_emplace(std::string(name), names_.size());
    if (is_new) names_.emplace_back(name);
    return static_cast<uint32_t>(place->second);
  }

  const std::vector<std::string>& names() const { return names_; }

 private:
  std::map<std::string, size_t> numbers_;
  std::vector<std::string> names_;
};

Status append_known(const Provenance& from, Sources& sources, ProvenanceWriter& to) {
  std::vector<uint32_t> numbers;
  for (int64_t i = 0; i < from.source_count(); ++i) {
    numbers.push_back(sources.number_of(from.source(i)));
  }
  for (int64_t document = 0; document < from.document_count(); ++document) {
    MEG_ASSIGN_OR_RETURN(DocumentPlace place, from.place(document));
    if (place.source != DocumentPlace::kUnknownSource) place.source = numbers[place.source];
    MEG_RETURN_IF_ERROR(to.append({&place, 1}));
  }
  return Status();
}

}  // namespace

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
  Sources sources;
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
