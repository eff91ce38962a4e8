#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "libmeg/base/result.h"
#include "libmeg/dataset/indexed_dataset.h"
#include "libmeg/samples/cache/internal/idx_stamp.h"

namespace meg::samples {

/// Digests of the three files of a cache: of their sizes and ends.
struct IndexDigests {
  std::string document_index;
  std::string sample_index;
  std::string shuffle_index;

  bool operator==(const IndexDigests&) const = default;
};

/// What libmeg writes beside the caches it builds: of which data, and how. FORMAT.md in the folder
/// above has the fields.
struct CacheSidecar {
  IdxStamp idx;
  dataset::SequenceRange sequences;
  LengthTotals lengths;  ///< Of those sequences.
  bool extra_token = true;
  bool drop_last_partial = true;
  IndexDigests indices;
};

/// The file's text, JSON.
std::string sidecar_text(const CacheSidecar& sidecar);

/// The inverse, for the text of a file called `name`. kCorruption where anything differs from what
/// was written, kUnsupported for another schema.
Result<CacheSidecar> parse_sidecar(std::string_view text, const std::string& name);

/// Reads a sidecar, whatever stands at path. kNotFound where nothing does.
Result<CacheSidecar> read_sidecar(const std::string& path);

}  // namespace meg::samples
