#include "libmeg/samples/internal/blend_datasets.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <span>

#include "libmeg/base/stopwatch.h"
#include "libmeg/samples/blended_dataset.h"
#include "libmeg/samples/cache/internal/blend_index_cache.h"
#include "libmeg/samples/cache/internal/cache_files.h"
#include "libmeg/samples/cache/internal/index_description.h"

namespace meg::samples {
namespace {

// Megatron's bounds: the number of a dataset is stored as uint8 before core, as int16 since.
constexpr size_t kMaxLegacyDatasets = 254;
constexpr size_t kMaxDatasets = 32766;

/// A blend by sizes gives every dataset a share.
Status check_sizes(std::span<const int64_t> sizes, Split split,
                   std::span<const std::string> prefixes) {
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] > 0) continue;
    return make_error(StatusCode::kInvalidArgument,
                      "{}: expected at least one whole sample in the {} split of a blend without "
                      "weights, found none",
                      prefixes[i], split_name(split));
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

}  // namespace

Result<BlendPlan> plan_blend(Split split, const Blend& blend, const GptDataConfig& config) {
  const std::optional<int64_t> samples = config.samples[split_number(split)];
  const bool is_only_one = blend.prefixes.size() == 1 && !config.blend.has_value();
  if (blend.single() || (is_only_one && config.version.open_sample_counts)) {
    return BlendPlan{.is_alone = true, .samples = samples, .parts = {}, .weights = {}};
  }
  const size_t most = config.version.index_cache_form <= megatron::IndexCacheForm::kLegacy
                          ? kMaxLegacyDatasets
                          : kMaxDatasets;
  if (blend.prefixes.size() > most) {
    return make_error(StatusCode::kInvalidArgument,
                      "`data_path`: expected at most {} datasets, found {}", most,
                      blend.prefixes.size());
  }
  if (!blend.weights.has_value()) return BlendPlan();
  if (!samples.has_value()) {
    return make_error(StatusCode::kInvalidArgument,
                      "{}: a blend by weights needs a number of samples, found None",
                      split_name(split));
  }
  BlendPlan plan;
  plan.weights = normalized_data_path_weights(*blend.weights, config.version);
  MEG_ASSIGN_OR_RETURN(plan.parts, blend_parts(plan.weights, *samples,
                                               config.mid_level_dataset_surplus, config.version));
  return plan;
}

Result<BlendIndexRequest> blend_index_request(Split split, BlendPlan plan, const Blend& blend,
                                              std::vector<int64_t> sizes,
                                              const SplitDatasets& datasets,
                                              const GptDataConfig& config) {
  BlendIndexRequest request;
  request.dataset_sizes = std::move(sizes);
  request.prefixes = blend.prefixes;
  request.split = split;
  request.remedy = remedy_of(plan.parts.empty(), config);
  const auto& all = request.dataset_sizes;
  const int64_t total = std::accumulate(all.begin(), all.end(), int64_t{0});
  int64_t used = 0;
  for (const BlendPart& part : plan.parts) used += part.used;
  // No weights: the datasets' own sizes are the weights, and each gives what it has (or its share
  // of the samples asked for).
  if (plan.parts.empty()) {
    MEG_RETURN_IF_ERROR(check_sizes(all, split, request.prefixes));
    plan.weights.assign(all.begin(), all.end());
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
  if (request.size.has_value()) plan.weights = normalized_weights(plan.weights);
  const megatron::IndexCacheForm form = config.version.index_cache_form;
  request.byte_indices = form <= megatron::IndexCacheForm::kLegacy;
  BlendDescription description{
      .datasets = {}, .split = split, .weights = plan.weights, .size = request.size};
  for (size_t i = 0; i < blend.prefixes.size(); ++i) {
    description.datasets.push_back(datasets.describe(split, plan.part(blend, i)));
  }
  request.description = blend_description(description, config.version);
  request.weights = std::move(plan.weights);
  request.files = blend_index_files(split, request.description, config.cache_path, config.version);
  request.waiting = config.waiting;
  request.cancelled = config.cancelled;
  return request;
}

SplitDatasets::Part BlendPlan::part(const Blend& blend, size_t i) const {
  SplitDatasets::Part part{.prefix = blend.prefixes[i], .samples = samples};
  if (!parts.empty()) part.samples = parts[i].built;
  return part;
}

Result<std::unique_ptr<SampleDataset>> blend_datasets(Split split, const Blend& blend,
                                                      const GptDataConfig& config,
                                                      SplitDatasets& datasets,
                                                      GptDatasets& result) {
  MEG_ASSIGN_OR_RETURN(BlendPlan plan, plan_blend(split, blend, config));
  std::vector<SplitDatasets::Part> all;
  for (size_t i = 0; i < blend.prefixes.size(); ++i) all.push_back(plan.part(blend, i));
  MEG_ASSIGN_OR_RETURN(auto opened, datasets.open(split, all));
  if (opened.empty()) return std::unique_ptr<SampleDataset>();
  if (plan.is_alone) return std::move(opened[0]);
  const Stopwatch watch;
  std::vector<int64_t> sizes;
  for (const auto& dataset : opened) sizes.push_back(dataset->size());
  MEG_ASSIGN_OR_RETURN(
      const BlendIndexRequest request,
      blend_index_request(split, std::move(plan), blend, std::move(sizes), datasets, config));
  MEG_ASSIGN_OR_RETURN(BlendIndexCache cache, open_blend_index_cache(request));
  auto blended = std::make_unique<BlendedDataset>(std::move(opened), std::move(cache.index));
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

}  // namespace meg::samples
