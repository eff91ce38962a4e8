#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/samples/blended_dataset.h"
#include "libmeg/samples/cache/gpt_index_cache.h"
#include "libmeg/samples/cache/internal/cache_files.h"
#include "libmeg/samples/split.h"

namespace meg::samples {

/// The data from which a blend's indices are built, and the places of their cache.
struct BlendIndexRequest {
  std::vector<double> weights;         ///< Normalized; unused without `size`.
  std::optional<int64_t> size;         ///< Samples; nullopt: all of every dataset.
  std::vector<int64_t> dataset_sizes;  ///< Samples of each dataset.
  std::vector<std::string> prefixes;   ///< Of each dataset, for messages.
  Split split = Split::kTrain;
  std::string remedy;         ///< What to do where a dataset has too few samples, for messages.
  bool byte_indices = false;  ///< uint8 dataset numbers, as before Megatron core.
  /// Allows draws beyond a dataset's end; only reading such a sample is an error. For v2.x, whose
  /// blends are longer than requested.
  bool draws_beyond_end = false;
  std::string description;               ///< The text from which the files are named.
  std::optional<BlendIndexFiles> files;  ///< nullopt: built in memory.
  CacheWaiting waiting;
  CacheCancelled cancelled;
};

struct BlendIndexCache {
  BlendIndex index;
  CacheOutcome outcome = CacheOutcome::kFound;
  std::string reason;  ///< kRebuilt: why the existing files could not be used.
};

/// Opens the cached indices, or builds and saves them; safe for many processes at once.
/// kInvalidArgument if a dataset has fewer samples than the blend draws from it (unless
/// draws_beyond_end).
Result<BlendIndexCache> open_blend_index_cache(const BlendIndexRequest& request);

/// Opens the cached indices if they are there, and builds none. kCorruption where they are not
/// those of the request.
Result<std::optional<BlendIndex>> find_blend_index_cache(const BlendIndexRequest& request);

/// Saves indices in place of those that the request would give: of request.size samples each.
Status save_blend_index(std::vector<int16_t> datasets, std::vector<int64_t> samples,
                        const BlendIndexRequest& request);

}  // namespace meg::samples
