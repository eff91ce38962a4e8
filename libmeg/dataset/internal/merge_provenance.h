#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/dataset/provenance_writer.h"

namespace meg::dataset {

/// The complete provenance of the inputs' documents, in order; nullopt if no input has any. notes:
/// receives a note about inputs without provenance, whose documents' sources are then unknown.
Result<std::optional<ProvenanceWriter>> merged_provenance(const std::vector<std::string>& prefixes,
                                                          const std::string& output_prefix,
                                                          std::vector<std::string>& notes);

}  // namespace meg::dataset
