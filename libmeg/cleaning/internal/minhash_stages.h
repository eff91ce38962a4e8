#pragma once

#include "libmeg/base/progress.h"
#include "libmeg/base/result.h"
#include "libmeg/cleaning/clean.h"
#include "libmeg/cleaning/duplicates/bucket.h"

namespace meg::cleaning {

/// The second stage: those of the 14 buckets whose number modulo `input.shard.count` is its index,
/// over all shares of signatures. Writes the pairs of each.
Result<CleanSummary> write_bucket_pairs(const CleanOptions& options,
                                        const ProgressCallback& progress);

/// The third stage, of all buckets: documents are numbered through the shares. Writes for each
/// share which of its documents go.
Result<CleanSummary> write_removed(const CleanOptions& options, const ProgressCallback& progress);

/// Reports the signatures that were looked at, of one bucket after another, from any thread; ends
/// with kCancelled. progress: must outlive the tick and its copies.
Tick make_tick(const ProgressCallback& progress);

/// Of documents among which none at the key that decides was a number.
void warn_of_missing_values(const CleanOptions& options, int64_t documents, CleanSummary& summary);

}  // namespace meg::cleaning
