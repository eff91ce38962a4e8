#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/dataset/provenance.h"
#include "libmeg/dataset/provenance_writer.h"

namespace meg::dataset {

/// Names of the sources of several datasets, each once, in the order in which they come.
class SourceNames {
 public:
  /// The numbers here of all sources of `from`, by their numbers there.
  std::vector<uint32_t> add(const Provenance& from);

  const std::vector<std::string>& names() const { return names_; }

 private:
  std::map<std::string, size_t> numbers_;
  std::vector<std::string> names_;
};

/// The place of a document of `from`, whose source is called by `numbers`.
Result<DocumentPlace> numbered_place(const Provenance& from, int64_t document,
                                     const std::vector<uint32_t>& numbers);

/// The complete provenance of the inputs' documents, in order; nullopt if no input has any. notes:
/// receives a note about inputs without provenance, whose documents' sources are then unknown.
Result<std::optional<ProvenanceWriter>> merged_provenance(const std::vector<std::string>& prefixes,
                                                          const std::string& output_prefix,
                                                          std::vector<std::string>& notes);

}  // namespace meg::dataset
