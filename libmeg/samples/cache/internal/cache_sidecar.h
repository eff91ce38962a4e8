#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "libmeg/base/result.h"
#include "libmeg/dataset/indexed_dataset.h"
#include "libmeg/samples/cache/internal/idx_stamp.h"

namespace meg::samples {

/// Digests of the three files of a cache, computed from their sizes and ends.
struct IndexDigests {
  std::string document_index;
  std::string sample_index;
  std::string shuffle_index;

  bool operator==(const IndexDigests&) const = default;
};

/// The file that libmeg writes beside the caches that it builds: their data and how they were
/// built. docs/prepare_cache.md has the fields.
struct CacheSidecar {
  IdxStamp idx;
  dataset::SequenceRange sequences;
  LengthTotals lengths;  ///< Totals of those sequences.
  bool extra_token = true;
  bool drop_last_partial = true;
  IndexDigests indices;

  /// Sizes of an index that reblend() has made, which do not follow from the request.
  struct Reblended {
    int64_t epochs = 0, documents = 0, rows = 0, samples = 0, first_epoch = 0;
  };

  std::optional<Reblended> reblended = std::nullopt;
};

/// The file's text, JSON.
std::string sidecar_text(const CacheSidecar& sidecar);

/// The inverse, for the text of a file called `name`. kCorruption where anything differs from what
/// was written, kUnsupported for another schema.
Result<CacheSidecar> parse_sidecar(std::string_view text, const std::string& name);

/// Reads the sidecar at `path`, whatever kind of file that is. kNotFound if there is none.
Result<CacheSidecar> read_sidecar(const std::string& path);

}  // namespace meg::samples
