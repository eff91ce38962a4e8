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

/// What was found at a place: a cache, or files that cannot be used and the reason, or neither.
struct PlaceFinding {
  std::optional<GptIndexCache> cache;
  std::string unusable;  ///< One line.
};

/// Looks for a cache. Writes nothing, except a new time into a sidecar if the .idx was touched and
/// has the same lengths. Fails if the request itself cannot be met.
Result<PlaceFinding> look_at_place(const GptIndexCacheFiles& files, CacheSource* source);

/// A cache that has been built but is not yet in its place.
struct WrittenCache {
  GptIndexCacheFiles files;
  std::vector<io::AtomicFile> parts;  ///< In the order in which they are to appear.
  GptIndexPlan plan;
  CacheSidecar sidecar;  ///< Without its digests.

  int64_t bytes() const;  ///< Approximate size of its files.
};

/// Builds the cache of a request for a place, and removes what is there. The source must be
/// prepared.
Result<WrittenCache> write_for_place(const GptIndexCacheFiles& files, CacheSource* source);

/// Puts a cache, whose parts have been flushed, in its place. If it fails, nothing is left.
Result<GptIndexCache> put_in_place(WrittenCache* written);

}  // namespace meg::samples
