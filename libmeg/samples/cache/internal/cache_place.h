#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/io/atomic_file.h"
#include "libmeg/samples/cache/gpt_index_cache.h"
#include "libmeg/samples/cache/internal/cache_sidecar.h"
#include "libmeg/samples/cache/internal/cache_source.h"

namespace meg::samples {

/// What a place has: a cache, or files that cannot be used and why, or neither.
struct PlaceFinding {
  std::optional<GptIndexCache> cache;
  std::string unusable;  ///< One line.
};

/// Looks for a cache. Writes nothing, but for a sidecar's new time where the .idx has been touched
/// and has the same lengths. An error where the request itself cannot be met.
Result<PlaceFinding> look_at_place(const GptIndexCacheFiles& files, CacheSource* source);

/// A cache that is built, but not yet in its place.
struct WrittenCache {
  GptIndexCacheFiles files;
  std::vector<io::AtomicFile> parts;  ///< In the order in which they are to appear.
  GptIndexPlan plan;
  CacheSidecar sidecar;  ///< Without its digests.

  int64_t bytes() const;  ///< Of its files, about.
};

/// Builds the cache of a request for a place, from which it takes away what stands there. The
/// source must be prepared.
Result<WrittenCache> write_for_place(const GptIndexCacheFiles& files, CacheSource* source);

/// Puts a cache, whose parts have been flushed, in its place. Nothing is left where it fails.
Result<GptIndexCache> put_in_place(WrittenCache* written);

}  // namespace meg::samples
