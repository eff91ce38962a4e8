#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "libmeg/base/result.h"
#include "libmeg/dataset/indexed_dataset.h"
#include "libmeg/samples/cache/gpt_index_files.h"
#include "libmeg/samples/cache/internal/cache_sidecar.h"
#include "libmeg/samples/gpt_index.h"
#include "libmeg/samples/gpt_index_plan.h"

namespace meg::samples {

/// The three files of a cache, open.
struct CachedIndex {
  GptIndex index;
  IndexDigests digests;
};

/// Maps the files. Types and shapes must be what the plan gives, except that a sample index may
/// have either integer type. kCorruption or kNotFound where they cannot be used.
Result<CachedIndex> open_cached_index(const GptIndexPaths& paths, const GptIndexPlan& plan);

/// Opens the index of a cache that had these digests: kCorruption where the files are others now.
/// Of any thread, at any time.
std::function<Result<GptIndex>()> reopening(const GptIndexPaths& paths, const GptIndexPlan& plan,
                                            const IndexDigests& digests);

/// Looks at a few entries, of the first sample and of where the last one ends: an index of other
/// lengths, or built with other options, hardly ever has the same. tokens: of one epoch. Returns
/// what is wrong, or nullopt.
std::optional<std::string> difference_at_ends(const GptIndex& index, const GptIndexPlan& plan,
                                              dataset::LittleEndianArray<int32_t> lengths,
                                              dataset::SequenceRange range, int64_t tokens);

}  // namespace meg::samples
