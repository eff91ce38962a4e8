#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/dataset/provenance_writer.h"

namespace meg::dataset {

/// The provenance of the inputs' documents, in order, complete; nullopt where no input has any.
/// notes: told of those that have none, whose documents' sources are then unknown.
Result<std::optional<ProvenanceWriter>> merged_provenance(const std::vector<std::string>& prefixes,
                                                          const std::string& output_prefix,
                                                          std::vector<std::string>& notes);

}  // namespace meg::dataset
