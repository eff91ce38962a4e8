#include "libmeg/samples/internal/split_datasets.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>

#include "libmeg/base/stopwatch.h"
#include "libmeg/base/thread_pool.h"
#include "libmeg/samples/cache/internal/cache_files.h"

namespace meg::samples {
namespace {

/// From this number of datasets on, several threads look for the caches of a blend.
constexpr size_t kManyParts = 64;
constexpr int kMostLookers = 16;

/// Whether any sequence of the range has a token. Without one Megatron would add epochs for ever;
/// as a rule the first length answers it.
bool has_tokens(const dataset::IndexedDataset& dataset, dataset::SequenceRange range) {
  const dataset::LittleEndianArray<int32_t> lengths = dataset.sequence_lengths();
  for (int64_t sequence = range.begin; sequence < range.end; ++sequence) {
    if (lengths[sequence] > 0) return true;
  }
  return false;
}

}  // namespace

Result<std::shared_ptr<const GptDataset::Dataset>> SplitDatasets::open_dataset(
    const std::string& prefix) {
  // The splits of a dataset, and a blend that names it twice, share one mapping.
  auto& opened = datasets_[prefix];
  if (opened != nullptr) return opened;
  MEG_RETURN_IF_ERROR(check_folders_for(prefix));
  // Samples lie at random places: reading ahead would read what nobody asks for.
  const dataset::IndexedDataset::Options options{
      .access = io::MappedFile::Access::kRandom,
      .idx_cache = config_.object_storage_cache_path.value_or("")};
  MEG_ASSIGN_OR_RETURN(dataset::IndexedDataset dataset,
                       dataset::IndexedDataset::open(prefix, options));
  if (config_.format.has_value() && dataset.format() != *config_.format) {
    return make_error(StatusCode::kInvalidArgument, "{}: expected {} by `data_impl`, found {}",
                      dataset.idx().path(), dataset::index_format_name(*config_.format),
                      dataset::index_format_name(dataset.format()));
  }
  const auto open_again = [prefix, options, idx_size = dataset.idx().size(),
                           bin_size = dataset.bin().size()]() -> Result<dataset::IndexedDataset> {
    MEG_ASSIGN_OR_RETURN(dataset::IndexedDataset again,
                         dataset::IndexedDataset::open(prefix, options));
    if (again.idx().size() == idx_size && again.bin().size() == bin_size) return again;
    return make_error(StatusCode::kCorruption,
                      "{}: expected the files that this run began with, found other sizes", prefix);
  };
  constexpr int64_t kMappings = 2;
  const auto pooled = std::make_shared<GptDataset::Dataset>(pool_, kMappings, open_again);
  pooled->put(std::move(dataset));
  opened = pooled;
  return opened;
}

/// What is made of a dataset at s3:// is kept on this machine.
Status SplitDatasets::check_folders_for(const std::string& prefix) const {
  if (prefix.find("://") == prefix.npos) return {};
  const auto missing = [&](std::string_view field, std::string_view what) {
    return make_error(StatusCode::kInvalidArgument,
                      "{}: expected {} with a dataset in a store, to name a folder for {}", prefix,
                      field, what);
  };
  if (!config_.object_storage_cache_path.has_value()) {
    return missing("`object_storage_cache_path`", "its .idx");
  }
  const bool has_place = config_.cache_path.has_value() &&
                         config_.version.index_cache_form != megatron::IndexCacheForm::kBesideData;
  return has_place ? Status() : missing("`data_cache_path`", "its index caches");
}

std::string SplitDatasets::name_of(Split split) const {
  return fmt::format("{} split{}", split_name(split),
                     cut_.has_value() ? fmt::format(" (`split` {})", cut_->text()) : "");
}

Result<std::optional<dataset::SequenceRange>> SplitDatasets::range_of(
    Split split, const dataset::IndexedDataset& dataset) const {
  std::optional<dataset::SequenceRange> range =
      dataset::SequenceRange{.begin = 0, .end = dataset.sequence_count()};
  if (cut_.has_value()) {
    range = cut_->ranges(dataset.sequence_count())[split_number(split)];
  }
  if (!range.has_value() || has_tokens(dataset, *range)) return range;
  return make_error(
      StatusCode::kInvalidArgument,
      "{}: {}: expected tokens in the sequences [{}, {}) of {}, found none (Megatron-LM loops "
      "forever here): set the weight of the split to 0, or add documents",
      dataset.prefix(), name_of(split), range->begin, range->end, dataset.sequence_count());
}

void SplitDatasets::note_no_documents(Split split, const std::string& prefix) {
  result_.notes.push_back(
      fmt::format("{}: no documents for the {}: it is skipped", prefix, name_of(split)));
}

GptDescription SplitDatasets::describe(Split split, const Part& part) const {
  GptDescription description;
  description.prefix = part.prefix;
  description.samples = part.samples;
  description.split = split;
  description.seed = static_cast<uint32_t>(config_.seed);
  description.sequence_length = config_.sequence_length;
  description.weights = cut_.has_value() ? cut_ : described_;
  description.tokenizer = config_.tokenizer;
  return description;
}

GptIndexCacheRequest SplitDatasets::request_for(Split split, const Part& part,
                                                dataset::SequenceRange range,
                                                const dataset::IndexedDataset& dataset) const {
  GptIndexCacheRequest request;
  request.dataset = &dataset;
  request.range = range;
  request.seed = static_cast<uint32_t>(config_.seed);
  request.description = gpt_description(describe(split, part), config_.version);
  request.samples = part.samples;
  request.waiting = config_.waiting;
  request.cancelled = config_.cancelled;
  request.defer = config_.defer_npy_index_mmap;
  request.sequence_length = config_.sequence_length;
  request.extra_token = config_.extra_token;
  request.drop_last_partial =
      split != Split::kValid || config_.drop_last_partial_validation_sequence;
  if (config_.version.index_cache_form == megatron::IndexCacheForm::kBesideData) {
    request.places = {beside_data_files(part.prefix, split,
                                        {.samples = part.samples.value_or(0),
                                         .sequence_length = config_.sequence_length,
                                         .seed = request.seed})};
  } else {
    request.places = gpt_index_cache_places(part.prefix, split, request.description,
                                            config_.cache_path, config_.version);
  }
  return request;
}

bool SplitDatasets::open_cache(Split split, const Part& part,
                               const std::shared_ptr<const GptDataset::Dataset>& dataset,
                               GptIndexCacheGroup* group, Opened* opened) const {
  const Stopwatch watch;
  opened->status = check_cancelled(config_.cancelled, part.prefix);
  if (!opened->status.ok()) return true;
  const auto pinned = dataset->pin();
  opened->status = pinned.status();
  if (!pinned.has_value()) return true;
  const dataset::IndexedDataset& data = **pinned;
  const Result<std::optional<dataset::SequenceRange>> range = range_of(split, data);
  opened->status = range.status();
  if (!range.has_value() || !range->has_value()) return true;
  // Stays where the group is given up before this cache's turn: it must not look like a split
  // without documents.
  opened->status = make_error(StatusCode::kCancelled, "{}: not built", part.prefix);
  // The dataset stays open until its cache is committed.
  const auto take = [=, pool = pool_, prefix = part.prefix,
                     held = *pinned](Result<GptIndexCache> cache) {
    opened->status = cache.status();
    if (!cache.has_value()) return;
    opened->report = {.split = split,
                      .prefix = prefix,
                      .outcome = cache->outcome,
                      .reason = cache->reason,
                      .description = cache->files.description,
                      .files = cache->files.parts(),
                      .samples = cache->plan.samples,
                      .epochs = cache->plan.epochs,
                      .seconds = watch.seconds()};
    constexpr int64_t kMappings = 3;
    auto index = std::make_unique<GptDataset::Index>(pool, kMappings, std::move(cache->open));
    if (!cache->is_deferred) index->put(std::move(cache->index));
    opened->dataset = std::make_unique<GptDataset>(prefix, dataset, std::move(index), cache->plan);
  };
  const GptIndexCacheRequest request = request_for(split, part, **range, data);
  if (group != nullptr) {
    group->open(request, config_.version, take);
    return true;
  }
  auto found = find_gpt_index_cache(request, config_.version);
  if (found.has_value() && !found->has_value()) return false;
  take(found.has_value() ? Result<GptIndexCache>(**std::move(found)) : found.error());
  return true;
}

std::vector<SplitDatasets::Opened> SplitDatasets::open_caches(
    Split split, const std::vector<Part>& parts,
    const std::vector<std::shared_ptr<const GptDataset::Dataset>>& datasets) const {
  std::vector<Opened> opened(parts.size());
  std::mutex mutex;
  int64_t done = 0;
  const auto count_one = [&] {
    if (!config_.cache_progress) return;
    const std::lock_guard lock(mutex);
    config_.cache_progress(split, ++done, std::ssize(parts));
  };
  // Each thread takes the next dataset; results lie in the order of `parts`, whoever made them.
  std::vector<char> is_settled(parts.size());
  const auto open_all = [&](int threads, bool builds) {
    std::atomic<size_t> next = 0;
    const auto open_some = [&] {
      // A group of its own, so that no lock is shared.
      GptIndexCacheGroup group(threads);
      for (size_t i = next++; i < parts.size(); i = next++) {
        if (is_settled[i] != 0) continue;
        is_settled[i] =
            open_cache(split, parts[i], datasets[i], builds ? &group : nullptr, &opened[i]) ? 1 : 0;
        if (is_settled[i] != 0) count_one();
      }
      group.commit();
    };
    ThreadPool pool(threads);
    for (int i = 0; i < threads; ++i) pool.submit(open_some);
    pool.wait();
  };
  // Looking costs no memory and builds nothing, so that it need not keep to
  // --num-dataset-builder-threads; a large blend has tens of thousands of caches to look at.
  if (parts.size() >= kManyParts) open_all(std::min(available_processors(), kMostLookers), false);
  open_all(std::clamp(config_.threads, 1, static_cast<int>(parts.size())), true);
  return opened;
}

Result<std::vector<std::unique_ptr<SampleDataset>>> SplitDatasets::open_packed(
    Split split, const std::vector<Part>& parts) {
  std::vector<std::unique_ptr<SampleDataset>> splits;
  for (const Part& part : parts) {
    std::shared_ptr<const PackedFiles>& files = packed_[part.prefix];
    if (files == nullptr) {
      MEG_ASSIGN_OR_RETURN(files, PackedFiles::open(part.prefix, config_.sequence_length));
    }
    std::optional<dataset::SequenceRange> documents =
        dataset::SequenceRange{.begin = 0, .end = files->tokens().document_count()};
    if (cut_.has_value()) documents = cut_->ranges(documents->end)[split_number(split)];
    if (!documents.has_value() || documents->begin == documents->end) {
      if (parts.size() == 1) {
        note_no_documents(split, part.prefix);
        return splits;
      }
      return make_error(
          StatusCode::kInvalidArgument,
          "{}: expected documents for the {} as the rest of the blend has, found none", part.prefix,
          name_of(split));
    }
    const int64_t sequences = documents->end - documents->begin;
    result_.notes.push_back(fmt::format(
        "{}: {} packed sequences for the {}, packing efficiency {:.2f}%", part.prefix, sequences,
        name_of(split),
        100.0 * static_cast<double>(files->positions(documents->begin, documents->end)) /
            (static_cast<double>(sequences) * static_cast<double>(config_.sequence_length))));
    splits.push_back(
        std::make_unique<PackedDataset>(files, *documents, part.samples, config_.sequence_length));
  }
  return splits;
}

Result<std::vector<std::unique_ptr<SampleDataset>>> SplitDatasets::open(
    Split split, const std::vector<Part>& parts) {
  if (config_.packed) return open_packed(split, parts);
  std::vector<std::shared_ptr<const GptDataset::Dataset>> datasets;
  for (const Part& part : parts) {
    MEG_RETURN_IF_ERROR(check_cancelled(config_.cancelled, part.prefix));
    MEG_ASSIGN_OR_RETURN(auto dataset, open_dataset(part.prefix));
    datasets.push_back(std::move(dataset));
  }
  std::vector<std::unique_ptr<SampleDataset>> splits;
  std::optional<std::string> without;
  std::vector<Opened> opened = open_caches(split, parts, datasets);
  for (size_t i = 0; i < parts.size(); ++i) {
    MEG_RETURN_IF_ERROR(opened[i].status);
    if (opened[i].dataset == nullptr) {
      without = parts[i].prefix;
      continue;
    }
    result_.caches.push_back(std::move(opened[i].report));
    splits.push_back(std::move(opened[i].dataset));
  }
  // The weights of a blend mean all of its datasets; leaving one out would change every draw.
  if (without.has_value() && !splits.empty()) {
    return make_error(StatusCode::kInvalidArgument,
                      "{}: expected documents for the {} as the rest of the blend has, found none",
                      *without, name_of(split));
  }
  if (without.has_value()) note_no_documents(split, *without);
  return splits;
}

}  // namespace meg::samples
