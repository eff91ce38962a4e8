#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "libmeg/core/result.h"
#include "libmeg/dataset/samples/cache_source.h"
#include "libmeg/dataset/samples/gpt_index_cache.h"

namespace meg {

/// What a place has: a cache, or files that cannot be used and why, or neither.
struct PlaceFinding {
  std::optional<GptIndexCache> cache;
  std::string unusable;  ///< One line.
};

/// Looks for a cache. Writes nothing, but for a sidecar's new time where the .idx has been touched
/// and has the same lengths. An error where the request itself cannot be met.
Result<PlaceFinding> look_at_place(const GptIndexCacheFiles& files, CacheSource* source);

/// Builds the cache of a request at a place, whatever stands there. Nothing is left where it fails.
/// The source must be prepared.
Result<GptIndexCache> build_at_place(const GptIndexCacheFiles& files, CacheSource* source);

}  // namespace meg
