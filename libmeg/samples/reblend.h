#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/dataset/indexed_dataset.h"
#include "libmeg/samples/blend.h"
#include "libmeg/samples/gpt_datasets.h"
#include "libmeg/samples/split.h"

namespace meg::samples {

/// How a run goes on after some of its samples.
struct NewMixture {
  /// From the next sample on; with weights. nullopt: as before.
  std::optional<Blend> blend;
  /// Of the whole run, with what it has consumed; nullopt: as before.
  std::optional<PerSplit<std::optional<int64_t>>> samples;
  /// Documents [begin, end) that are no longer to be read, in order and apart, by the prefix of
  /// their dataset. Those of earlier calls for the run stay excluded.
  std::map<std::string, std::vector<dataset::SequenceRange>> excluded;
  bool allow_repeats = true;  ///< Else kInvalidArgument where a dataset's tokens do not last.
  /// Folder of the index caches to write; nullopt: nothing is written.
  std::optional<std::string> cache_path;
};

/// What one dataset gives.
struct ReblendedDataset {
  std::string prefix;
  bool is_new = false;    ///< The run had not read it.
  double old_weight = 0;  ///< Of 1.
  double new_weight = 0;  ///< Of 1.
  int64_t given = 0;      ///< Samples until now.
  int64_t to_come = 0;    ///< Samples from now to the end of the run.
  /// Samples before one of a further epoch comes; -1 where the run has shuffled
  /// several epochs together, so that no border is between them.
  int64_t left = 0;
  int64_t epoch_tokens = 0;
  /// The sample of the run, from 0, with which its first further epoch begins.
  std::optional<int64_t> repeats_at;
  /// Documents that are no longer read, in order and apart, by earlier calls too.
  std::vector<dataset::SequenceRange> excluded;
  int64_t excluded_sequences = 0;  ///< Theirs, in the training split.
  int64_t changed_samples = 0;     ///< Lost sequences that are excluded, and are shorter.
  int64_t dropped_samples = 0;     ///< Had nothing else.
};

struct Reblended {
  GptDataConfig config;  ///< Of the continued run; its train blend is what its flags must say.
  std::vector<ReblendedDataset> datasets;
  int64_t samples = 0;       ///< Of the whole run.
  int64_t weights_from = 0;  ///< The sample from which the new weights hold.
  std::vector<IndexCacheReport> caches;
  std::vector<std::string> notes;
};

/// Index caches with which Megatron continues with another blend. It skips the samples that it has
/// consumed: the caches' first `consumed` samples are those of the run, in its order, and the
/// others are drawn by the new weights, from each dataset behind what it has given. Validation and
/// test samples stay as they are. A dataset's order continues with further epochs, each shuffled by
/// itself, where its samples end.
///
/// The weights of the result's blend are the samples that each dataset gives over the whole run,
/// and all datasets of the run stay in it: they name the caches, and make Megatron ask each dataset
/// for enough.
///
/// run: with the cache_path that it had, which may be one that an earlier call has written. Errors:
/// kInvalidArgument for a mixture that cannot be met, kCorruption where a cache of the run cannot
/// be used, so that it is unknown what it read; kUnsupported for revisions before the caches of
/// blends, packed and mock data and datasets in stores; those of opening datasets and writing.
Result<Reblended> reblend(const GptDataConfig& run, int64_t consumed, const NewMixture& mixture);

}  // namespace meg::samples
