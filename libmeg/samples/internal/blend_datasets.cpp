#include "libmeg/samples/internal/blend_datasets.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <span>

#include "libmeg/base/stopwatch.h"
#include "libmeg/samples/cache/internal/blend_index_cache.h"
#include "libmeg/samples/cache/internal/cache_files.h"
#include "libmeg/samples/cache/internal/index_description.h"
#include "libmeg/samples/internal/blended_dataset.h"

namespace meg::samples {
namespace {

// Megatron's bounds: the number of a dataset is stored as uint8 before core, as int16 since.
constexpr size_t kMaxLegacyDatasets = 254;
constexpr size_t kMaxDatasets = 32766;

Result<std::vector<BlendPart>> plan_blend(Split split, const Blend& blend,
                                          const GptDataConfig& config,
                                          std::vector<double>& weights) {
  const size_t most = config.version.index_cache_form <= megatron::IndexCacheForm::kLegacy
                          ? kMaxLegacyDatasets
                          : kMaxDatasets;
  if (blend.prefixes.size() > most) {
    return make_error(StatusCode::kInvalidArgument,
                      "`data_path`: expected at most {} datasets, found {}", most,
                      blend.prefixes.size());
  }
  if (!blend.weights.has_value()) return std::vector<BlendPart>();
  const std::optional<int64_t> samples = config.samples[split_number(split)];
  if (!samples.has_value()) {
    return make_error(StatusCode::kInvalidArgument,
                      "{}: a blend by weights needs a number of samples, found None",
                      split_name(split));
  }
  weights = normalized_data_path_weights(*blend.weights, config.version);
  return blend_parts(weights, *samples, config.mid_level_dataset_surplus, config.version);
}

/// A blend by sizes gives every dataset a share.
Status check_sizes(std::span<const int64_t> sizes, Split split,
                   std::span<const std::unique_ptr<SampleDataset>> datasets) {
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] > 0) continue;
    return make_error(StatusCode::kInvalidArgument,
                      "{}: expected at least one whole sample in the {} split of a blend without "
                      "weights, found none",
                      datasets[i]->prefixes()[0], split_name(split));
  }
  return {};
}

/// What to do where the blend's rounding draws more samples of a dataset than it has.
std::string remedy_of(bool by_sizes, const GptDataConfig& config) {
  // A dataset has its margin by its weight; by sizes, it gives what it has.
  if (!by_sizes && config.version.blend_margin == megatron::BlendMargin::kOnTop) {
    return fmt::format("a `mid_level_dataset_surplus` above {} gives it more",
                       config.mid_level_dataset_surplus);
  }
  return "request other numbers of samples, or give other weights";
}

/// The index of the blend over its open datasets.
Result<std::unique_ptr<SampleDataset>> blend_of(
    Split split, std::vector<std::unique_ptr<SampleDataset>> datasets,
    std::vector<GptDescription> descriptions, const std::vector<BlendPart>& parts,
    std::vector<double> weights, const GptDataConfig& config, GptDatasets& result) {
  const Stopwatch watch;
  BlendIndexRequest request;
  for (const auto& dataset : datasets) {
    request.dataset_sizes.push_back(dataset->size());
    request.prefixes.push_back(dataset->prefixes()[0]);
  }
  request.split = split;
  request.remedy = remedy_of(parts.empty(), config);
  int64_t total = 0;
  for (const int64_t size : request.dataset_sizes) total += size;
  int64_t used = 0;
  for (const BlendPart& part : parts) used += part.used;
  // No weights: the datasets' own sizes are the weights, and each gives what it has (or its share
  // of the samples asked for).
  if (parts.empty()) {
    MEG_RETURN_IF_ERROR(check_sizes(request.dataset_sizes, split, datasets));
    weights.assign(request.dataset_sizes.begin(), request.dataset_sizes.end());
    const std::optional<int64_t> samples = config.samples[split_number(split)];
    if (samples.has_value()) request.size = std::min(*samples, total);
  } else {
    // v2.x makes the blend as long as its datasets are together, with their margin, and draws past
    // the end of some; only reading such a sample fails.
    request.draws_beyond_end = config.version.blend_margin == megatron::BlendMargin::kSumOfBuilt;
    request.size = request.draws_beyond_end ? total : used;
  }
  // Those of the command line for the second time, as in Megatron, whose builder and BlendedDataset
  // each normalize: it may change last bits, and they are in the description.
  if (request.size.has_value()) weights = normalized_weights(weights);
  const megatron::IndexCacheForm form = config.version.index_cache_form;
  request.weights = weights;
  request.byte_indices = form <= megatron::IndexCacheForm::kLegacy;
  request.description = blend_description({.datasets = std::move(descriptions),
                                           .split = split,
                                           .weights = weights,
                                           .size = request.size},
                                          config.version);
  request.files = blend_index_files(split, request.description, config.cache_path, config.version);
  request.waiting = config.waiting;
  request.cancelled = config.cancelled;
  MEG_ASSIGN_OR_RETURN(BlendIndexCache cache, open_blend_index_cache(request));
  auto blended = std::make_unique<BlendedDataset>(std::move(datasets), std::move(cache.index));
  result.caches.push_back(
      {.split = split,
       .prefix = {},
       .outcome = cache.outcome,
       .reason = cache.reason,
       .description = request.files.has_value() ? request.files->description : std::string(),
       .files = request.files.has_value() ? request.files->parts() : std::vector<std::string>(),
       .samples = blended->size(),
       .epochs = 1,
       .seconds = watch.seconds()});
  return std::unique_ptr<SampleDataset>(std::move(blended));
}

}  // namespace

Result<std::unique_ptr<SampleDataset>> blend_datasets(Split split, const Blend& blend,
                                                      const GptDataConfig& config,
                                                      SplitDatasets& datasets,
                                                      GptDatasets& result) {
  std::vector<double> weights;
  MEG_ASSIGN_OR_RETURN(const std::vector<BlendPart> parts,
                       plan_blend(split, blend, config, weights));
  std::vector<SplitDatasets::Part> all;
  std::vector<GptDescription> descriptions;
  for (size_t i = 0; i < blend.prefixes.size(); ++i) {
    SplitDatasets::Part part{.prefix = blend.prefixes[i], .samples = {}};
    if (!parts.empty()) part.samples = parts[i].built;
    descriptions.push_back(datasets.describe(split, part));
    all.push_back(std::move(part));
  }
  MEG_ASSIGN_OR_RETURN(auto opened, datasets.open(split, all));
  if (opened.empty()) return std::unique_ptr<SampleDataset>();
  return blend_of(split, std::move(opened), std::move(descriptions), parts, std::move(weights),
                  config, result);
}

}  // namespace meg::samples
