#include "libmeg/samples/gpt_datasets.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "libmeg/samples/internal/blend_datasets.h"
#include "libmeg/samples/internal/mock_gpt_dataset.h"
#include "libmeg/samples/internal/split_datasets.h"

namespace meg::samples {
namespace {

/// What numpy's RandomState takes.
constexpr int64_t kMaxSeed = std::numeric_limits<uint32_t>::max();

Status check_config(const GptDataConfig& config) {
  if (config.seed < 0 || config.seed > kMaxSeed) {
    return make_error(StatusCode::kInvalidArgument, "`seed`: expected 0 to {}, found {}", kMaxSeed,
                      config.seed);
  }
  if (config.sequence_length < 1) {
    return make_error(StatusCode::kInvalidArgument, "`seq_length`: expected at least 1, found {}",
                      config.sequence_length);
  }
  for (const Split split : kSplits) {
    const std::optional<int64_t> samples = config.samples[split_number(split)];
    if (samples.value_or(0) < 0) {
      return make_error(StatusCode::kInvalidArgument, "{} samples: expected at least 0, found {}",
                        split_name(split), *samples);
    }
    if (!samples.has_value() && !config.version.open_sample_counts) {
      return make_error(StatusCode::kInvalidArgument,
                        "{} samples: revision {} of Megatron needs a number, found None",
                        split_name(split), config.version.name);
    }
  }
  return {};
}

/// One split of the result.
Status build_split(Split split, const Blend& blend, const GptDataConfig& config,
                   SplitDatasets& datasets, GptDatasets& result) {
  std::unique_ptr<SampleDataset>& built = result.splits[split_number(split)];
  MEG_ASSIGN_OR_RETURN(built, blend_datasets(split, blend, config, datasets, result));
  // A split that is too short for one sample is no error in itself: a run without evaluation does
  // without it.
  if (built == nullptr || built->size() > 0) return {};
  built.reset();
  result.notes.push_back(
      fmt::format("{}: no whole sample of `seq_length` {} in the {} split: it is skipped",
                  blend.prefixes[0], config.sequence_length, split_name(split)));
  return {};
}

Status build_mock(Split split, const GptDataConfig& config, GptDatasets& result) {
  MockGptOptions options;
  options.split = split;
  options.samples = config.samples[split_number(split)];
  options.sequence_length = config.sequence_length;
  options.seed = static_cast<uint32_t>(config.seed);
  options.vocab_size = config.vocab_size;
  options.eod = config.eod;
  options.extra_token = config.extra_token;
  options.drop_last_partial =
      split != Split::kValid || config.drop_last_partial_validation_sequence;
  MEG_ASSIGN_OR_RETURN(result.splits[split_number(split)],
                       make_mock_gpt_dataset(options, config.version));
  return {};
}

/// --data-path: one blend for all splits.
Status build_cut_splits(const GptDataConfig& config, GptDatasets& result) {
  MEG_ASSIGN_OR_RETURN(const SplitWeights cut, SplitWeights::parse(config.split, config.version));
  SplitDatasets datasets(config, cut, std::nullopt, result);
  // Whether a split gets documents at all is asked with the largest count, before any dataset is
  // opened: a weight of 0 gives none, whatever the size.
  const auto ranges = cut.ranges(std::numeric_limits<int32_t>::max());
  for (const Split split : kSplits) {
    if (!ranges[split_number(split)].has_value()) {
      datasets.note_no_documents(split, config.blend->prefixes[0]);
      continue;
    }
    MEG_RETURN_IF_ERROR(build_split(split, *config.blend, config, datasets, result));
  }
  return {};
}

/// --train-data-path and its like: a blend for each split.
Status build_own_splits(const GptDataConfig& config, GptDatasets& result) {
  std::optional<SplitWeights> described;
  // At 6ef5bdc the text of --split stands in the description, although nothing is cut by it.
  const bool names_split = config.version.index_cache_form == megatron::IndexCacheForm::kLegacy;
  if (names_split && config.per_split_split.has_value()) {
    MEG_ASSIGN_OR_RETURN(described, SplitWeights::parse(*config.per_split_split, config.version));
  }
  SplitDatasets datasets(config, std::nullopt, described, result);
  for (const Split split : kSplits) {
    const std::optional<Blend>& blend = config.per_split[split_number(split)];
    if (!blend.has_value()) continue;
    MEG_RETURN_IF_ERROR(build_split(split, *blend, config, datasets, result));
  }
  return {};
}

}  // namespace

Result<GptDatasets> build_gpt_datasets(const GptDataConfig& config) {
  MEG_RETURN_IF_ERROR(check_config(config));
  GptDatasets result;
  // The order of Megatron's builder: one blend, then blends of the splits, else mock data.
  const bool own = std::any_of(config.per_split.begin(), config.per_split.end(),
                               [](const auto& blend) { return blend.has_value(); });
  if (config.blend.has_value()) {
    MEG_RETURN_IF_ERROR(build_cut_splits(config, result));
  } else if (own) {
    MEG_RETURN_IF_ERROR(build_own_splits(config, result));
  } else {
    for (const Split split : kSplits) MEG_RETURN_IF_ERROR(build_mock(split, config, result));
  }
  return result;
}

}  // namespace meg::samples
