#include "libmeg/samples/internal/reblend/run_splits.h"

#include <algorithm>
#include <string>

#include "libmeg/base/thread_pool.h"
#include "libmeg/samples/cache/internal/blend_index_cache.h"
#include "libmeg/samples/cache/internal/cache_files.h"
#include "libmeg/samples/cache/internal/cache_place.h"
#include "libmeg/samples/cache/internal/cache_source.h"
#include "libmeg/samples/internal/blend_datasets.h"

namespace meg::samples {
namespace {

/// What waits for files gains from more threads than there are datasets to read; memory does not.
constexpr int kMostThreads = 16;

}  // namespace

Status for_each_part(size_t count, const std::function<Status(size_t)>& work) {
  std::vector<Status> statuses(count);
  ThreadPool pool(std::clamp(available_processors(), 1, kMostThreads));
  for (size_t i = 0; i < count; ++i) pool.submit([&, i] { statuses[i] = work(i); });
  pool.wait();
  for (const Status& status : statuses) MEG_RETURN_IF_ERROR(status);
  return {};
}

const Blend* blend_of(Split split, const GptDataConfig& config) {
  if (config.blend) return &*config.blend;
  const auto& own = config.per_split[split_number(split)];
  return own ? &*own : nullptr;
}

Status RunSplits::open_index(Split split, RunPart& part) const {
  const GptIndexCacheRequest request =
      sets_.request_for(split, part.asked, part.range, *part.dataset);
  CacheSource source(request, run_.version);
  MEG_RETURN_IF_ERROR(source.check());
  MEG_ASSIGN_OR_RETURN(part.totals, source.totals());
  std::string unusable;
  for (const GptIndexCacheFiles& files : request.places) {
    MEG_ASSIGN_OR_RETURN(PlaceFinding found, look_at_place(files, &source));
    if (found.cache) {
      part.cache = *std::move(found.cache);
      return {};
    }
    if (unusable.empty()) unusable = std::move(found.unusable);
  }
  if (!unusable.empty()) {
    return make_error(StatusCode::kCorruption,
                      "{}: expected the index cache that the run has read, found another: {}",
                      part.asked.prefix, unusable);
  }
  MEG_RETURN_IF_ERROR(check_may_build(request.places.back().sidecar));
  MEG_ASSIGN_OR_RETURN(const GptIndexPlan plan, source.plan(part.totals));
  MEG_ASSIGN_OR_RETURN(part.cache, build_gpt_index_in_memory(plan, part.dataset->sequence_lengths(),
                                                             part.range, request.seed));
  return {};
}

Result<std::optional<RunSplit>> RunSplits::open(Split split) {
  const Blend& blend = *blend_of(split, run_);
  RunSplit opened;
  MEG_ASSIGN_OR_RETURN(BlendPlan plan, plan_blend(split, blend, run_));
  const bool is_alone = plan.is_alone;
  for (size_t i = 0; i < blend.prefixes.size(); ++i) {
    RunPart part{
        .asked = plan.part(blend, i), .dataset = {}, .range = {}, .totals = {}, .cache = {}};
    MEG_ASSIGN_OR_RETURN(const auto pooled, sets_.open_dataset(part.asked.prefix));
    MEG_ASSIGN_OR_RETURN(part.dataset, pooled->pin());
    MEG_ASSIGN_OR_RETURN(const auto range, sets_.range_of(split, *part.dataset));
    if (!range) return std::optional<RunSplit>();
    part.range = *range;
    opened.parts.push_back(std::move(part));
  }
  MEG_RETURN_IF_ERROR(for_each_part(opened.parts.size(),
                                    [&](size_t i) { return open_index(split, opened.parts[i]); }));
  if (is_alone) {
    opened.weights = {1};
    return std::optional(std::move(opened));
  }
  std::vector<int64_t> sizes;
  for (const RunPart& part : opened.parts) sizes.push_back(part.cache.plan.samples);
  MEG_ASSIGN_OR_RETURN(BlendIndexRequest request,
                       blend_index_request(split, std::move(plan), blend, sizes, sets_, run_));
  opened.weights = normalized_weights(request.weights);
  MEG_ASSIGN_OR_RETURN(opened.blend, find_blend_index_cache(request));
  if (!opened.blend) {
    if (request.files) MEG_RETURN_IF_ERROR(check_may_build(request.files->description));
    request.files.reset();
    MEG_ASSIGN_OR_RETURN(BlendIndexCache built, open_blend_index_cache(request));
    opened.blend = std::move(built.index);
  }
  return std::optional(std::move(opened));
}

}  // namespace meg::samples
