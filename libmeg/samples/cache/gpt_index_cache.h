#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/dataset/indexed_dataset.h"
#include "libmeg/megatron/megatron_version.h"
#include "libmeg/samples/cache/gpt_index_files.h"
#include "libmeg/samples/cache_callbacks.h"
#include "libmeg/samples/gpt_index.h"
#include "libmeg/samples/gpt_index_plan.h"
#include "libmeg/samples/split.h"

namespace meg::samples {

/// The files that hold one split's indices.
struct GptIndexCacheFiles {
  std::string description;  ///< Empty at v2.x, which writes none.
  GptIndexPaths indices;
  std::string
      sidecar;  ///< libmeg's own file, which describes the data that the indices were built from.

  /// The files of a complete cache, in the order in which they appear: all but the sidecar.
  std::vector<std::string> parts() const;
};

/// The data from which a split's indices are built, and the places of their cache.
struct GptIndexCacheRequest {
  const dataset::IndexedDataset* dataset = nullptr;
  dataset::SequenceRange range;  ///< Of the split, not empty.
  uint32_t seed = 0;
  std::string description;  ///< The text whose md5 names the files.
  std::optional<int64_t> samples;
  int64_t sequence_length = 0;
  bool extra_token = true;
  bool drop_last_partial = true;
  /// Leaves the indices of a cache that libmeg has built to GptIndexCache::open.
  bool defer = false;
  /// Places to search, in order; a missing cache is built in the last one.
  std::vector<GptIndexCacheFiles> places;
  CacheWaiting waiting;
  CacheCancelled cancelled;
};

class CacheSource;

struct GptIndexCache {
  GptIndex index;
  GptIndexPlan plan;
  CacheOutcome outcome = CacheOutcome::kFound;
  std::string reason;  ///< kRebuilt: one line that says why the existing cache could not be used.
  GptIndexCacheFiles files;  ///< The place that was used.
  /// Opens the indices again, by any thread at any time; an error where they are no longer those
  /// that were found. Empty for indices in memory.
  std::function<Result<GptIndex>()> open = {};
  bool is_deferred = false;  ///< `index` is empty: only `open` has it.
};

/// Opens the cached indices of splits or builds them.
///
/// Caches of other programs (no sidecar) are used if types, sizes and the entries at the ends match
/// the request; libmeg's must also be for the same data and options: size, time and ends of the
/// .idx as in the sidecar or, if only the time differs, the same lengths. A cache that cannot be
/// used is rebuilt, with the reason. Opening reads a few entries; GptDataset checks every one that
/// it reads. Safe when many processes ask for the same cache at once: one builds, the others wait
/// and load. Errors: kIoError if the place cannot be written, with a hint at --data-cache-path;
/// kResourceExhausted if the disk is full or memory is insufficient; kOutOfRange for a range
/// outside the dataset; kCorruption for negative lengths; kInvalidArgument if the range has no
/// tokens; those of plan_gpt_index().
///
/// A group flushes and renames the caches that it builds together, a few dozen at a time, because
/// the device takes little longer for them than for one. It holds their locks until then, but never
/// while it waits for a lock of another process. One thread at a time.
class GptIndexCacheGroup {
 public:
  using Take = std::function<void(Result<GptIndexCache>)>;

  /// groups: the number of groups in use at once, which share the available descriptors.
  explicit GptIndexCacheGroup(int groups = 1);
  GptIndexCacheGroup(const GptIndexCacheGroup&) = delete;
  /// Caches that were not committed are discarded.
  ~GptIndexCacheGroup();

  /// Passes the cache to `take`, in this call or a later one. The request must live until this call
  /// returns, its dataset until `take` is called.
  void open(const GptIndexCacheRequest& request, const megatron::MegatronVersion& version,
            Take take);

  /// Commits the remaining caches and passes them on.
  void commit();

 private:
  struct Written;

  Status open_or_write(CacheSource* source, const Take& take);
  Status lock_and_write(std::string unusable, CacheSource* source, const Take& take);
  bool may_wait(const GptIndexCacheRequest& request);

  size_t max_written_;
  std::vector<Written> written_;
  int64_t written_bytes_ = 0;
};

/// Opens a cache that is there, and builds none: nullopt where a group would.
Result<std::optional<GptIndexCache>> find_gpt_index_cache(const GptIndexCacheRequest& request,
                                                          const megatron::MegatronVersion& version);

/// A group of one.
Result<GptIndexCache> open_gpt_index_cache(const GptIndexCacheRequest& request,
                                           const megatron::MegatronVersion& version);

/// Builds the indices in memory, without any file.
Result<GptIndexCache> build_gpt_index_in_memory(const GptIndexPlan& plan,
                                                dataset::LittleEndianArray<int32_t> lengths,
                                                dataset::SequenceRange range, uint32_t seed);

}  // namespace meg::samples
