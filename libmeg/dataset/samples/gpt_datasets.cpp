#include "libmeg/dataset/samples/gpt_datasets.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <new>

#include "libmeg/core/thread_pool.h"
#include "libmeg/dataset/indexed_dataset.h"
#include "libmeg/dataset/samples/blend_index_cache.h"
#include "libmeg/dataset/samples/blended_dataset.h"
#include "libmeg/dataset/samples/cache_files.h"
#include "libmeg/dataset/samples/gpt_dataset.h"
#include "libmeg/dataset/samples/index_description.h"
#include "libmeg/dataset/samples/mock_gpt_dataset.h"

namespace meg {
namespace {

constexpr int64_t kMostSeed = std::numeric_limits<uint32_t>::max();
constexpr size_t kMostLegacyDatasets = 254;
constexpr size_t kMostDatasets = 32766;

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// Whether any sequence of the range has a token.
bool has_tokens(const IndexedDataset& dataset, SequenceRange range) {
  const LittleEndianArray<int32_t> lengths = dataset.sequence_lengths();
  for (int64_t sequence = range.begin; sequence < range.end; ++sequence) {
    if (lengths[sequence] > 0) return true;
  }
  return false;
}

/// Builds the splits one after another.
class Builder {
 public:
  explicit Builder(const GptDataConfig& config) : config_(config) {}

  Result<GptDatasets> build();

 private:
  /// One dataset's part in a split.
  struct Part {
    std::string prefix;
    std::optional<int64_t> samples;
  };

  Status check_config();
  Status build_split(Split split, const Blend& blend);
  Status build_mock(Split split);

  /// A split of one dataset, and what became of its cache; nullptr where it has no documents.
  struct Built {
    std::unique_ptr<SampleDataset> dataset;
    IndexCacheReport report;
  };

  Result<std::unique_ptr<SampleDataset>> build_single(Split split, const Part& part);
  Status open_cache(Split split, const Part& part, std::shared_ptr<const IndexedDataset> dataset,
                    Built* built) const;
  Result<std::vector<std::unique_ptr<SampleDataset>>> build_all(Split split,
                                                                const std::vector<Part>& parts);
  Result<std::unique_ptr<SampleDataset>> build_blend(Split split, const Blend& blend);
  Result<std::unique_ptr<SampleDataset>> blend_of(
      Split split, std::vector<std::unique_ptr<SampleDataset>> datasets,
      std::vector<GptDescription> descriptions, const std::vector<BlendPart>& parts,
      std::vector<double> weights);
  Result<std::vector<BlendPart>> plan_blend(Split split, const Blend& blend,
                                            std::vector<double>& weights) const;

  Result<std::shared_ptr<const IndexedDataset>> open(const std::string& prefix);
  /// nullopt: the split has no documents, or none with tokens.
  std::optional<SequenceRange> range_of(Split split, const IndexedDataset& dataset) const;
  Status no_documents(Split split, const std::string& prefix);
  GptDescription describe(Split split, const Part& part) const;

  std::optional<int64_t> samples_of(Split split) const {
    return config_.samples[split_number(split)];
  }

  const GptDataConfig& config_;
  std::optional<SplitWeights> weights_;
  std::optional<SplitWeights> described_weights_;  ///< Of splits that they do not cut.
  std::map<std::string, std::shared_ptr<const IndexedDataset>> opened_;
  GptDatasets result_;
};

Status Builder::check_config() {
  if (config_.seed < 0 || config_.seed > kMostSeed) {
    return make_error(StatusCode::kInvalidArgument, "--seed: expected 0 to {}, found {}", kMostSeed,
                      config_.seed);
  }
  if (config_.sequence_length < 1) {
    return make_error(StatusCode::kInvalidArgument, "--seq-length: expected at least 1, found {}",
                      config_.sequence_length);
  }
  for (const Split split : kSplits) {
    const std::optional<int64_t> samples = samples_of(split);
    if (samples.value_or(0) < 0) {
      return make_error(StatusCode::kInvalidArgument, "{} samples: expected at least 0, found {}",
                        split_name(split), *samples);
    }
    if (!samples.has_value() && !config_.version.open_sample_counts) {
      return make_error(StatusCode::kInvalidArgument,
                        "{} samples: Megatron at {} needs a number, found None", split_name(split),
                        config_.version.name);
    }
  }
  return {};
}

Result<std::shared_ptr<const IndexedDataset>> Builder::open(const std::string& prefix) {
  auto& opened = opened_[prefix];
  if (opened != nullptr) return opened;
  MEG_ASSIGN_OR_RETURN(
      IndexedDataset dataset,
      IndexedDataset::open(prefix, {.multimodal = {}, .access = MappedFile::Access::kRandom}));
  const int64_t needed = config_.sequence_length + (config_.extra_token ? 1 : 0);
  if (dataset.item_count() < needed) {
    return make_error(StatusCode::kInvalidArgument,
                      "{}: expected at least {} tokens (one sample of --seq-length {}), found {}",
                      prefix, needed, config_.sequence_length, dataset.item_count());
  }
  opened = std::make_shared<const IndexedDataset>(std::move(dataset));
  return opened;
}

std::optional<SequenceRange> Builder::range_of(Split split, const IndexedDataset& dataset) const {
  std::optional<SequenceRange> range = SequenceRange{.begin = 0, .end = dataset.sequence_count()};
  if (weights_.has_value()) {
    range = weights_->ranges(dataset.sequence_count())[split_number(split)];
  }
  if (range.has_value() && !has_tokens(dataset, *range)) range.reset();
  return range;
}

Status Builder::no_documents(Split split, const std::string& prefix) {
  const std::string where =
      fmt::format("{}: no documents for the {} split{}", prefix, split_name(split),
                  weights_.has_value() ? fmt::format(" (--split {})", weights_->text()) : "");
  if (split == Split::kTrain && samples_of(split) != 0) {
    return Status(StatusCode::kInvalidArgument, where);
  }
  result_.notes.push_back(where + ": it is skipped");
  return {};
}

GptDescription Builder::describe(Split split, const Part& part) const {
  GptDescription description;
  description.prefix = part.prefix;
  description.samples = part.samples;
  description.split = split;
  description.seed = static_cast<uint32_t>(config_.seed);
  description.sequence_length = config_.sequence_length;
  description.weights = weights_.has_value() ? weights_ : described_weights_;
  description.tokenizer = config_.tokenizer;
  return description;
}

Status Builder::open_cache(Split split, const Part& part,
                           std::shared_ptr<const IndexedDataset> dataset, Built* built) const {
  const Stopwatch watch;
  const std::optional<SequenceRange> range = range_of(split, *dataset);
  if (!range.has_value()) return {};
  GptIndexCacheRequest request;
  request.dataset = dataset.get();
  request.range = *range;
  request.seed = static_cast<uint32_t>(config_.seed);
  request.description = gpt_description(describe(split, part), config_.version);
  request.samples = part.samples;
  request.sequence_length = config_.sequence_length;
  request.extra_token = config_.extra_token;
  request.drop_last_partial =
      split != Split::kValid || config_.drop_last_partial_validation_sequence;
  if (config_.version.index_cache_form == IndexCacheForm::kBesideData) {
    request.places = {beside_data_files(part.prefix, split,
                                        {.samples = part.samples.value_or(0),
                                         .sequence_length = config_.sequence_length,
                                         .seed = request.seed})};
  } else {
    request.places = gpt_index_cache_places(part.prefix, split, request.description,
                                            config_.cache_path, config_.version);
  }
  MEG_ASSIGN_OR_RETURN(GptIndexCache cache, open_gpt_index_cache(request, config_.version));
  built->report = {.split = split,
                   .prefix = part.prefix,
                   .outcome = cache.outcome,
                   .reason = cache.reason,
                   .description = cache.files.description,
                   .samples = cache.plan.samples,
                   .epochs = cache.plan.epochs,
                   .seconds = watch.seconds()};
  built->dataset =
      std::make_unique<GptDataset>(std::move(dataset), std::move(cache.index), cache.plan);
  return {};
}

Result<std::unique_ptr<SampleDataset>> Builder::build_single(Split split, const Part& part) {
  MEG_ASSIGN_OR_RETURN(auto built, build_all(split, {part}));
  return built.empty() ? nullptr : std::move(built[0]);
}

/// The datasets in the order of `parts`; none at all where one has no documents for the split.
Result<std::vector<std::unique_ptr<SampleDataset>>> Builder::build_all(
    Split split, const std::vector<Part>& parts) {
  std::vector<std::shared_ptr<const IndexedDataset>> opened;
  for (const Part& part : parts) {
    MEG_ASSIGN_OR_RETURN(auto dataset, open(part.prefix));
    opened.push_back(std::move(dataset));
  }
  std::vector<Built> built(parts.size());
  std::vector<Status> statuses(parts.size());
  {
    ThreadPool pool(std::clamp(config_.threads, 1, static_cast<int>(parts.size())));
    for (size_t i = 0; i < parts.size(); ++i) {
      pool.submit([&, i] {
        try {
          statuses[i] = open_cache(split, parts[i], opened[i], &built[i]);
        } catch (const std::bad_alloc&) {
          statuses[i] = make_error(StatusCode::kResourceExhausted,
                                   "{}: out of memory for its indices", parts[i].prefix);
        }
      });
    }
  }
  std::vector<std::unique_ptr<SampleDataset>> datasets;
  for (size_t i = 0; i < parts.size(); ++i) {
    MEG_RETURN_IF_ERROR(statuses[i]);
    if (built[i].dataset == nullptr) {
      MEG_RETURN_IF_ERROR(no_documents(split, parts[i].prefix));
      return std::vector<std::unique_ptr<SampleDataset>>();
    }
    result_.caches.push_back(std::move(built[i].report));
    datasets.push_back(std::move(built[i].dataset));
  }
  return datasets;
}

Result<std::vector<BlendPart>> Builder::plan_blend(Split split, const Blend& blend,
                                                   std::vector<double>& weights) const {
  const size_t most = config_.version.index_cache_form <= IndexCacheForm::kLegacy
                          ? kMostLegacyDatasets
                          : kMostDatasets;
  if (blend.prefixes.size() > most) {
    return make_error(StatusCode::kInvalidArgument,
                      "--data-path: expected at most {} datasets, found {}", most,
                      blend.prefixes.size());
  }
  if (!blend.weights.has_value()) return std::vector<BlendPart>();
  const std::optional<int64_t> samples = samples_of(split);
  if (!samples.has_value()) {
    return make_error(StatusCode::kInvalidArgument,
                      "{}: a blend by weights needs a number of samples, found None",
                      split_name(split));
  }
  weights = normalized_weights(*blend.weights);
  return blend_parts(weights, *samples, config_.version);
}

Result<std::unique_ptr<SampleDataset>> Builder::build_blend(Split split, const Blend& blend) {
  std::vector<double> weights;
  MEG_ASSIGN_OR_RETURN(const std::vector<BlendPart> parts, plan_blend(split, blend, weights));
  std::vector<Part> all;
  std::vector<GptDescription> descriptions;
  for (size_t i = 0; i < blend.prefixes.size(); ++i) {
    Part part{.prefix = blend.prefixes[i], .samples = {}};
    if (!parts.empty()) part.samples = parts[i].built;
    descriptions.push_back(describe(split, part));
    all.push_back(std::move(part));
  }
  MEG_ASSIGN_OR_RETURN(auto datasets, build_all(split, all));
  if (datasets.empty()) return std::unique_ptr<SampleDataset>();
  return blend_of(split, std::move(datasets), std::move(descriptions), parts, std::move(weights));
}

Result<std::unique_ptr<SampleDataset>> Builder::blend_of(
    Split split, std::vector<std::unique_ptr<SampleDataset>> datasets,
    std::vector<GptDescription> descriptions, const std::vector<BlendPart>& parts,
    std::vector<double> weights) {
  const Stopwatch watch;
  BlendIndexRequest request;
  for (const auto& dataset : datasets) request.dataset_sizes.push_back(dataset->size());
  int64_t total = 0;
  for (const int64_t size : request.dataset_sizes) total += size;
  int64_t used = 0;
  for (const BlendPart& part : parts) used += part.used;
  if (parts.empty()) {
    weights.assign(request.dataset_sizes.begin(), request.dataset_sizes.end());
    if (samples_of(split).has_value()) request.size = std::min(*samples_of(split), total);
  } else {
    request.draws_beyond_end = config_.version.blend_margin == BlendMargin::kSumOfBuilt;
    request.size = request.draws_beyond_end ? total : used;
  }
  if (request.size.has_value()) weights = normalized_weights(weights);
  const IndexCacheForm form = config_.version.index_cache_form;
  request.weights = weights;
  request.byte_indices = form <= IndexCacheForm::kLegacy;
  request.description = blend_description({.datasets = std::move(descriptions),
                                           .split = split,
                                           .weights = weights,
                                           .size = request.size},
                                          config_.version);
  request.files =
      blend_index_files(split, request.description, config_.cache_path, config_.version);
  MEG_ASSIGN_OR_RETURN(BlendIndexCache cache, open_blend_index_cache(request));
  auto blended = std::make_unique<BlendedDataset>(std::move(datasets), std::move(cache.index));
  result_.caches.push_back(
      {.split = split,
       .prefix = {},
       .outcome = cache.outcome,
       .reason = cache.reason,
       .description = request.files.has_value() ? request.files->description : std::string(),
       .samples = blended->size(),
       .epochs = 1,
       .seconds = watch.seconds()});
  return std::unique_ptr<SampleDataset>(std::move(blended));
}

Status Builder::build_split(Split split, const Blend& blend) {
  // Datasets of their own for each split need no weight where they are alone, since core 0.7.
  const bool alone =
      !weights_.has_value() && blend.prefixes.size() == 1 && config_.version.open_sample_counts;
  std::unique_ptr<SampleDataset>& built = result_.splits[split_number(split)];
  if (blend.single() || alone) {
    MEG_ASSIGN_OR_RETURN(
        built, build_single(split, {.prefix = blend.prefixes[0], .samples = samples_of(split)}));
  } else {
    MEG_ASSIGN_OR_RETURN(built, build_blend(split, blend));
  }
  if (built == nullptr || built->size() > 0) return {};
  built.reset();
  const std::string what =
      fmt::format("{}: no whole sample of --seq-length {} in the {} split", blend.prefixes[0],
                  config_.sequence_length, split_name(split));
  if (split == Split::kTrain && samples_of(split) != 0) {
    return Status(StatusCode::kInvalidArgument, what);
  }
  result_.notes.push_back(what + ": it is skipped");
  return {};
}

Status Builder::build_mock(Split split) {
  MockGptOptions options;
  options.split = split;
  options.samples = samples_of(split);
  options.sequence_length = config_.sequence_length;
  options.seed = static_cast<uint32_t>(config_.seed);
  options.vocab_size = config_.vocab_size;
  options.eod = config_.eod;
  options.extra_token = config_.extra_token;
  options.drop_last_partial =
      split != Split::kValid || config_.drop_last_partial_validation_sequence;
  MEG_ASSIGN_OR_RETURN(result_.splits[split_number(split)],
                       make_mock_gpt_dataset(options, config_.version));
  return {};
}

Result<GptDatasets> Builder::build() {
  MEG_RETURN_IF_ERROR(check_config());
  if (config_.blend.has_value()) {
    MEG_ASSIGN_OR_RETURN(weights_, SplitWeights::parse(config_.split, config_.version));
    for (const Split split : kSplits) {
      if (!weights_->ranges(std::numeric_limits<int32_t>::max())[split_number(split)].has_value()) {
        MEG_RETURN_IF_ERROR(no_documents(split, config_.blend->prefixes[0]));
        continue;
      }
      MEG_RETURN_IF_ERROR(build_split(split, *config_.blend));
    }
    return std::move(result_);
  }
  const bool described = config_.version.index_cache_form == IndexCacheForm::kLegacy;
  if (described && config_.per_split_split.has_value()) {
    MEG_ASSIGN_OR_RETURN(described_weights_,
                         SplitWeights::parse(*config_.per_split_split, config_.version));
  }
  bool any = false;
  for (const Split split : kSplits) {
    const std::optional<Blend>& blend = config_.per_split[split_number(split)];
    if (!blend.has_value()) continue;
    any = true;
    MEG_RETURN_IF_ERROR(build_split(split, *blend));
  }
  for (const Split split : kSplits) {
    if (!any) MEG_RETURN_IF_ERROR(build_mock(split));
  }
  return std::move(result_);
}

}  // namespace

Result<GptDatasets> build_gpt_datasets(const GptDataConfig& config) {
  return Builder(config).build();
}

}  // namespace meg
