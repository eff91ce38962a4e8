#include "libmeg/samples/internal/reblend/reblended_caches.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <span>
#include <utility>

#include "libmeg/io/atomic_file.h"
#include "libmeg/io/atomic_folder.h"
#include "libmeg/numpy/npy.h"
#include "libmeg/samples/cache/internal/blend_index_cache.h"
#include "libmeg/samples/cache/internal/cache_files.h"
#include "libmeg/samples/cache/internal/cache_place.h"
#include "libmeg/samples/cache/internal/cache_source.h"
#include "libmeg/samples/internal/blend_datasets.h"
#include "libmeg/samples/internal/reblend/reblend_record.h"

namespace meg::samples {
namespace {

namespace fs = std::filesystem;

template <class T>
Result<io::AtomicFile> npy_file(const std::string& path, std::span<const int64_t> values,
                                std::span<const int64_t> shape) {
  MEG_ASSIGN_OR_RETURN(const std::string header, numpy::npy_header(dtype_of<T>(), shape));
  MEG_ASSIGN_OR_RETURN(io::AtomicFile file, io::AtomicFile::create_under_lock(path));
  MEG_RETURN_IF_ERROR(file.write(std::as_bytes(std::span(header))));
  const std::vector<T> stored(values.begin(), values.end());
  MEG_RETURN_IF_ERROR(file.write(std::as_bytes(std::span(stored))));
  return file;
}

class CacheWriter {
 public:
  explicit CacheWriter(const ContinuedRun& run) : run_(run) {}

  Result<std::vector<IndexCacheReport>> write(const std::string& path) {
    std::error_code error;
    if (fs::exists(path, error) && !fs::is_empty(path, error)) {
      return make_error(StatusCode::kInvalidArgument,
                        "{}: expected no folder, or an empty one, for the new caches", path);
    }
    MEG_ASSIGN_OR_RETURN(io::AtomicFolder folder, io::AtomicFolder::create(path));
    MEG_ASSIGN_OR_RETURN(auto caches, write_into(folder.staging_path()));
    MEG_RETURN_IF_ERROR(folder.commit());
    for (IndexCacheReport& cache : caches) move_paths(cache, folder.path());
    // Without its cache Megatron would silently build another mixture: where the folder cannot be
    // written, it fails.
    fs::permissions(folder.path(),
                    fs::perms::owner_write | fs::perms::group_write | fs::perms::others_write,
                    fs::perm_options::remove, error);
    if (error) return errno_error(error.value(), folder.path());
    return caches;
  }

  static void move_paths(IndexCacheReport& cache, const fs::path& to) {
    const auto moved = [&](const std::string& path) {
      return path.empty() ? path : (to / fs::path(path).filename()).string();
    };
    cache.description = moved(cache.description);
    for (std::string& file : cache.files) file = moved(file);
  }

  Result<std::vector<IndexCacheReport>> write_into(const fs::path& folder) {
    GptDataConfig config = run_.now.config;
    config.cache_path = folder.string();
    GptDatasets scratch;
    SplitDatasets sets(config, run_.cut, {}, scratch);
    MEG_RETURN_IF_ERROR(write_train(config, sets));
    for (const Split split : {Split::kValid, Split::kTest}) {
      if (config.blend) MEG_RETURN_IF_ERROR(write_unchanged(split, config, sets));
    }
    // The others are Megatron's own: new datasets, and splits with datasets of their own.
    MEG_ASSIGN_OR_RETURN(GptDatasets built, build_gpt_datasets(config));
    for (const IndexCacheReport& cache : built.caches) {
      if (cache.outcome != CacheOutcome::kRebuilt) continue;
      return make_error(StatusCode::kInternal, "{}: {}", cache.description, cache.reason);
    }
    MEG_RETURN_IF_ERROR(write_record(folder));
    return std::move(built.caches);
  }

  Status write_train(const GptDataConfig& config, SplitDatasets& sets) {
    const Blend& blend = *blend_of(Split::kTrain, config);
    MEG_ASSIGN_OR_RETURN(BlendPlan plan, plan_blend(Split::kTrain, blend, config));
    std::vector<int64_t> sizes;
    for (size_t i = 0; i < run_.indices.size(); ++i) {
      MEG_RETURN_IF_ERROR(write_index(Split::kTrain, plan.part(blend, i), run_.train.parts[i],
                                      *run_.indices[i], sets));
      sizes.push_back(run_.indices[i]->samples());
    }
    if (plan.is_alone) return {};
    sizes.resize(blend.prefixes.size());
    for (size_t i = 0; i < sizes.size(); ++i) sizes[i] = std::max(sizes[i], run_.needed[i]);
    return write_blend(Split::kTrain, std::move(plan), blend, std::move(sizes), run_.drawn.datasets,
                       run_.drawn.samples, config, sets);
  }

  /// The samples of another split, as they were. They have other names by the new blend.
  Status write_unchanged(Split split, const GptDataConfig& config, SplitDatasets& sets) {
    if (config.samples[split_number(split)].value_or(1) == 0 ||
        !run_.cut->ranges(std::numeric_limits<int32_t>::max())[split_number(split)]) {
      return {};
    }
    MEG_ASSIGN_OR_RETURN(const auto opened, run_.before.open(split));
    if (!opened || opened->size() == 0) return {};
    const Blend& blend = *blend_of(split, config);
    MEG_ASSIGN_OR_RETURN(BlendPlan plan, plan_blend(split, blend, config));
    std::vector<int64_t> sizes;
    for (size_t i = 0; i < opened->parts.size(); ++i) {
      const RunPart& run = opened->parts[i];
      ContinuedIndex index(run.cache.index, run.cache.plan,
                           {.lengths = run.dataset->sequence_lengths(),
                            .range = run.range,
                            .tokens = run.totals.tokens,
                            .seed = static_cast<uint32_t>(config.seed)});
      if (plan.is_alone) {
        // A run that has become longer evaluates more often.
        MEG_RETURN_IF_ERROR(index.extend(plan.samples.value_or(0), config.cancelled));
      }
      MEG_RETURN_IF_ERROR(write_index(split, plan.part(blend, i), run, index, sets));
      sizes.push_back(index.samples());
    }
    if (plan.is_alone) return {};
    sizes.resize(blend.prefixes.size(), 1);
    int64_t size = 0;
    for (const BlendPart& part : plan.parts) size += part.used;
    if (plan.parts.empty()) size = opened->size();
    std::vector<int16_t> datasets;
    std::vector<int64_t> samples;
    for (int64_t i = 0; i < size; ++i) {
      const auto [dataset, sample] = opened->at(i % opened->size());
      datasets.push_back(static_cast<int16_t>(dataset));
      samples.push_back(sample);
    }
    return write_blend(split, std::move(plan), blend, std::move(sizes), std::move(datasets),
                       std::move(samples), config, sets);
  }

  Status write_blend(Split split, BlendPlan plan, const Blend& blend, std::vector<int64_t> sizes,
                     std::vector<int16_t> datasets, std::vector<int64_t> samples,
                     const GptDataConfig& config, const SplitDatasets& sets) const {
    MEG_ASSIGN_OR_RETURN(
        const BlendIndexRequest request,
        blend_index_request(split, std::move(plan), blend, std::move(sizes), sets, config));
    return save_blend_index(std::move(datasets), std::move(samples), request);
  }

  Status write_index(Split split, const SplitDatasets::Part& part, const RunPart& run,
                     const ContinuedIndex& index, const SplitDatasets& sets) const {
    const GptIndexCacheRequest request = sets.request_for(split, part, run.range, *run.dataset);
    CacheSource source(request, run_.now.config.version);
    MEG_ASSIGN_OR_RETURN(const IdxStamp stamp, source.stamp());
    MEG_ASSIGN_OR_RETURN(GptIndexPlan plan, source.plan(run.totals));
    constexpr int64_t kWidest = std::numeric_limits<int32_t>::max();
    if (std::ssize(index.documents()) > kWidest) plan.sample_type = DType::kInt64;
    plan.shuffle_type = index.row_count() >= kWidest ? DType::kInt64 : DType::kUint32;
    plan.epochs = index.epochs();
    plan.samples = index.samples();
    plan.samples_before_last_epoch.reset();
    plan.stored = {.documents = std::ssize(index.documents()),
                   .rows = index.row_count(),
                   .first_epoch = index.first_epoch()};
    const GptIndexCacheFiles& files = request.places.back();
    WrittenCache written{
        .files = files,
        .parts = {},
        .plan = plan,
        .sidecar = {.idx = stamp_to_keep(stamp),
                    .sequences = request.range,
                    .lengths = run.totals,
                    .extra_token = request.extra_token,
                    .drop_last_partial = request.drop_last_partial,
                    .indices = {},
                    .reblended = CacheSidecar::Reblended{.epochs = plan.epochs,
                                                         .documents = plan.documents(),
                                                         .rows = plan.rows(),
                                                         .samples = plan.samples,
                                                         .first_epoch = index.first_epoch()}}};
    const auto add = [&](Result<io::AtomicFile> file) -> Status {
      if (file.has_value()) written.parts.push_back(*std::move(file));
      return file.status();
    };
    const std::vector<int64_t> documents(index.documents().begin(), index.documents().end());
    const std::array one = {std::ssize(documents)};
    const std::array two = {plan.rows() + 1, int64_t{2}};
    const std::array all = {plan.samples};
    MEG_RETURN_IF_ERROR(add(npy_file<int32_t>(files.indices.document_index, documents, one)));
    const bool narrow = plan.sample_type == DType::kInt32;
    MEG_RETURN_IF_ERROR(
        add(narrow ? npy_file<int32_t>(files.indices.sample_index, index.rows(), two)
                   : npy_file<int64_t>(files.indices.sample_index, index.rows(), two)));
    MEG_RETURN_IF_ERROR(
        add(plan.shuffle_type == DType::kUint32
                ? npy_file<uint32_t>(files.indices.shuffle_index, index.shuffle(), all)
                : npy_file<int64_t>(files.indices.shuffle_index, index.shuffle(), all)));
    MEG_ASSIGN_OR_RETURN(io::AtomicFile description,
                         io::AtomicFile::create_under_lock(files.description));
    MEG_RETURN_IF_ERROR(description.write(std::as_bytes(std::span(request.description))));
    written.parts.push_back(std::move(description));
    return put_in_place(&written).status();
  }

  Status write_record(const fs::path& folder) const {
    ReblendRecord record{.consumed = run_.consumed,
                         .samples = run_.now.samples,
                         .weights_from = run_.now.weights_from,
                         .datasets = {}};
    for (const ReblendedDataset& each : run_.now.datasets) {
      record.datasets.push_back({.prefix = each.prefix,
                                 .weight = each.new_weight,
                                 .given = each.given,
                                 .to_come = each.to_come,
                                 .excluded = each.excluded});
    }
    return write_reblend_record(record, folder.string());
  }

  const ContinuedRun& run_;
};

}  // namespace

Result<std::vector<IndexCacheReport>> write_reblended_caches(const ContinuedRun& run,
                                                             const std::string& path) {
  return CacheWriter(run).write(path);
}

}  // namespace meg::samples
