#include "libmeg/samples/reblend.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "libmeg/base/thread_pool.h"
#include "libmeg/io/atomic_file.h"
#include "libmeg/numpy/npy.h"
#include "libmeg/samples/cache/internal/blend_index_cache.h"
#include "libmeg/samples/cache/internal/cache_files.h"
#include "libmeg/samples/cache/internal/cache_place.h"
#include "libmeg/samples/cache/internal/cache_source.h"
#include "libmeg/samples/internal/blend_datasets.h"
#include "libmeg/samples/internal/blend_index.h"
#include "libmeg/samples/internal/continued_index.h"
#include "libmeg/samples/internal/split_datasets.h"

namespace meg::samples {
namespace {

namespace fs = std::filesystem;

constexpr int kMostThreads = 16;

const Blend* blend_of(Split split, const GptDataConfig& config) {
  if (config.blend) return &*config.blend;
  const auto& own = config.per_split[split_number(split)];
  return own ? &*own : nullptr;
}

/// One dataset's samples in a split of the run.
struct RunPart {
  SplitDatasets::Part asked;
  std::shared_ptr<const dataset::IndexedDataset> dataset;
  dataset::SequenceRange range;
  LengthTotals totals;
  GptIndexCache cache;
};

/// Which samples a split of the run has.
struct RunSplit {
  std::vector<RunPart> parts;
  std::optional<BlendIndex> blend;  ///< nullopt: those of its one dataset.
  std::vector<double> weights;      ///< Normalized.

  int64_t size() const { return blend ? std::ssize(blend->samples) : parts[0].cache.plan.samples; }

  std::pair<int64_t, int64_t> at(int64_t sample) const {
    if (!blend) return {0, sample};
    const auto place = static_cast<size_t>(sample);
    const auto dataset =
        std::visit([place](auto all) { return static_cast<int64_t>(all[place]); }, blend->datasets);
    return {dataset, blend->samples[place]};
  }
};

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

/// The run's own indices and those of its continuation.
class Reblender {
 public:
  Reblender(const GptDataConfig& run, int64_t consumed, const NewMixture& mixture)
      : run_(run), consumed_(consumed), mixture_(mixture) {}

  Result<Reblended> reblend() {
    MEG_RETURN_IF_ERROR(check_run());
    MEG_ASSIGN_OR_RETURN(cut_, cut_of(run_));
    run_sets_.emplace(run_, cut_, std::nullopt, scratch_);
    MEG_ASSIGN_OR_RETURN(auto train, open_split(Split::kTrain));
    if (!train) {
      return Status(StatusCode::kInvalidArgument, "the run has no documents to train on");
    }
    train_ = *std::move(train);
    MEG_RETURN_IF_ERROR(count_given());
    MEG_RETURN_IF_ERROR(add_new_datasets());
    MEG_RETURN_IF_ERROR(draw());
    MEG_RETURN_IF_ERROR(continue_indices());
    MEG_RETURN_IF_ERROR(check_repeats());
    result_.notes.insert(result_.notes.end(), notes_.begin(), notes_.end());
    if (mixture_.cache_path) MEG_RETURN_IF_ERROR(write());
    return std::move(result_);
  }

 private:
  static Result<std::optional<SplitWeights>> cut_of(const GptDataConfig& config) {
    if (!config.blend) return std::optional<SplitWeights>();
    MEG_ASSIGN_OR_RETURN(SplitWeights cut, SplitWeights::parse(config.split, config.version));
    return std::optional(std::move(cut));
  }

  Status check_run() const {
    if (run_.version.index_cache_form == megatron::IndexCacheForm::kBesideData ||
        run_.version.index_cache_form == megatron::IndexCacheForm::kLegacy) {
      return make_error(StatusCode::kUnsupported,
                        "`megatron_version`: expected Megatron core, whose blends have caches of "
                        "their own, found {}",
                        run_.version.name);
    }
    if (blend_of(Split::kTrain, run_) == nullptr) {
      return Status(StatusCode::kInvalidArgument, "`data_path` or `train_data_path` is required");
    }
    const std::optional<int64_t> samples = run_.samples[split_number(Split::kTrain)];
    if (!samples) return Status(StatusCode::kInvalidArgument, "train samples: found None");
    if (consumed_ < 0 || consumed_ > *samples) {
      return make_error(StatusCode::kInvalidArgument,
                        "`consumed_samples`: expected at most the run's {}, found {}", *samples,
                        consumed_);
    }
    return {};
  }

  /// The index with which the run has read a dataset: nothing is built in its folder.
  Status open_index(Split split, RunPart& part) {
    const GptIndexCacheRequest request =
        run_sets_->request_for(split, part.asked, part.range, *part.dataset);
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
    MEG_ASSIGN_OR_RETURN(
        part.cache, build_gpt_index_in_memory(plan, part.dataset->sequence_lengths(), part.range,
                                              request.seed));
    return {};
  }

  /// nullopt: the split has no documents.
  Result<std::optional<RunSplit>> open_split(Split split) {
    const Blend& blend = *blend_of(split, run_);
    RunSplit opened;
    MEG_ASSIGN_OR_RETURN(BlendPlan plan, plan_blend(split, blend, run_));
    const bool is_alone = plan.is_alone;
    for (size_t i = 0; i < blend.prefixes.size(); ++i) {
      RunPart part{
          .asked = plan.part(blend, i), .dataset = {}, .range = {}, .totals = {}, .cache = {}};
      MEG_ASSIGN_OR_RETURN(const auto pooled, run_sets_->open_dataset(part.asked.prefix));
      MEG_ASSIGN_OR_RETURN(part.dataset, pooled->pin());
      MEG_ASSIGN_OR_RETURN(const auto range, run_sets_->range_of(split, *part.dataset));
      if (!range) return std::optional<RunSplit>();
      part.range = *range;
      opened.parts.push_back(std::move(part));
    }
    std::vector<Status> statuses(opened.parts.size());
    run_parallel(opened.parts.size(),
                 [&](size_t i) { statuses[i] = open_index(split, opened.parts[i]); });
    for (const Status& status : statuses) MEG_RETURN_IF_ERROR(status);
    if (is_alone) {
      opened.weights = {1};
      return std::optional(std::move(opened));
    }
    std::vector<int64_t> sizes;
    for (const RunPart& part : opened.parts) sizes.push_back(part.cache.plan.samples);
    MEG_ASSIGN_OR_RETURN(
        BlendIndexRequest request,
        blend_index_request(split, std::move(plan), blend, sizes, *run_sets_, run_));
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

  template <class Work>
  static void run_parallel(size_t count, const Work& work) {
    ThreadPool pool(std::clamp(available_processors(), 1, kMostThreads));
    for (size_t i = 0; i < count; ++i) pool.submit([&work, i] { work(i); });
    pool.wait();
  }

  /// Each dataset's samples are drawn in order, so that what it has given is a number.
  Status count_given() {
    const Blend& blend = *blend_of(Split::kTrain, run_);
    for (size_t i = 0; i < blend.prefixes.size(); ++i) {
      if (std::ranges::find(
              blend.prefixes.begin(), blend.prefixes.begin() + static_cast<ptrdiff_t>(i),
              blend.prefixes[i]) != blend.prefixes.begin() + static_cast<ptrdiff_t>(i)) {
        return make_error(StatusCode::kUnsupported,
                          "{}: expected each dataset once in the run's blend, found it twice: its "
                          "samples are seen twice too",
                          blend.prefixes[i]);
      }
      ReblendedDataset& added = result_.datasets.emplace_back();
      added.prefix = blend.prefixes[i];
      added.old_weight = train_.weights[i];
    }
    if (consumed_ > train_.size()) {
      return make_error(StatusCode::kInvalidArgument,
                        "`consumed_samples`: expected at most the blend's {}, found {}",
                        train_.size(), consumed_);
    }
    for (int64_t i = 0; i < consumed_; ++i) {
      const auto [dataset, sample] = train_.at(i);
      if (dataset < 0 || dataset >= std::ssize(train_.parts) ||
          sample != result_.datasets[static_cast<size_t>(dataset)].given++) {
        return make_error(StatusCode::kCorruption,
                          "dataset index: sample {}: expected the next sample of a dataset, found "
                          "sample {} of dataset {}",
                          i, sample, dataset);
      }
    }
    return {};
  }

  /// The number of the run's dataset that a prefix of the new blend names, by whatever path; the
  /// number of datasets for one that is new.
  Result<size_t> number_of(const std::string& prefix) {
    for (size_t i = 0; i < result_.datasets.size(); ++i) {
      const std::string& known = result_.datasets[i].prefix;
      if (known == prefix) return i;
      std::error_code absent;
      const bool same_idx = fs::equivalent(known + ".idx", prefix + ".idx", absent);
      const bool same_bin = fs::equivalent(known + ".bin", prefix + ".bin", absent);
      if (same_idx && same_bin) {
        notes_.push_back(fmt::format("{}: the dataset that the run knows as {}", prefix, known));
        return i;
      }
      if (same_bin) {
        return make_error(StatusCode::kInvalidArgument,
                          "{}: expected a dataset with tokens of its own, found a view of those of "
                          "{}, some of which the run has seen",
                          prefix, known);
      }
    }
    return result_.datasets.size();
  }

  Status add_new_datasets() {
    if (!mixture_.blend) {
      for (ReblendedDataset& each : result_.datasets) each.new_weight = each.old_weight;
      return {};
    }
    const Blend& blend = *mixture_.blend;
    if (!blend.weights) {
      return Status(StatusCode::kInvalidArgument,
                    "`new_blend`: expected a weight before each dataset");
    }
    const std::vector<double> weights = normalized_weights(*blend.weights);
    for (size_t i = 0; i < blend.prefixes.size(); ++i) {
      MEG_ASSIGN_OR_RETURN(const size_t number, number_of(blend.prefixes[i]));
      if (number == result_.datasets.size()) {
        ReblendedDataset& added = result_.datasets.emplace_back();
        added.prefix = blend.prefixes[i];
        added.is_new = true;
      }
      double& weight = result_.datasets[number].new_weight;
      if (weight != 0) {
        return make_error(StatusCode::kInvalidArgument,
                          "`new_blend`: expected each dataset once, found {} again",
                          blend.prefixes[i]);
      }
      weight = weights[i];
    }
    return {};
  }

  /// Decides which dataset every sample of the whole run comes from.
  Status draw() {
    result_.config = run_;
    GptDataConfig& config = result_.config;
    config.cache_path = mixture_.cache_path;
    config.defer_npy_index_mmap = false;
    if (mixture_.samples) config.samples = *mixture_.samples;
    const int64_t total = config.samples[split_number(Split::kTrain)].value_or(0);
    result_.samples = total;
    if (total <= consumed_) {
      return make_error(StatusCode::kInvalidArgument,
                        "expected samples to come after the {} consumed ones, found a run of {}",
                        consumed_, total);
    }
    // A blend is a little longer than what is asked for.
    const int64_t most = total + total / 64 + std::ssize(result_.datasets) + 64;
    MEG_RETURN_IF_ERROR(draw_samples(most));
    std::vector<int64_t> whole(result_.datasets.size());
    for (int64_t i = 0; i < total; ++i)
      ++whole[static_cast<size_t>(drawn_[static_cast<size_t>(i)])];
    for (size_t i = 0; i < whole.size(); ++i) {
      result_.datasets[i].to_come = whole[i] - result_.datasets[i].given;
    }
    if (result_.datasets.size() > 1) {
      Blend blend;
      blend.weights.emplace();
      for (size_t i = 0; i < whole.size(); ++i) {
        blend.prefixes.push_back(result_.datasets[i].prefix);
        // Megatron wants weights above 0.
        blend.weights->push_back(static_cast<double>(std::max<int64_t>(whole[i], 1)));
      }
      (config.blend ? config.blend : config.per_split[split_number(Split::kTrain)]) = blend;
    }
    const Blend& blend = *blend_of(Split::kTrain, config);
    MEG_ASSIGN_OR_RETURN(const BlendPlan plan, plan_blend(Split::kTrain, blend, config));
    int64_t size = 0;
    for (const BlendPart& part : plan.parts) size += part.used;
    // Without weights there is one dataset, or the run was one of several without weights, which
    // are given some above.
    if (plan.parts.empty()) size = total;
    if (size > most) return Status(StatusCode::kInternal, "a blend that is longer than foreseen");
    drawn_.resize(static_cast<size_t>(size));
    drawn_samples_.resize(static_cast<size_t>(size));
    needed_.assign(result_.datasets.size(), 0);
    for (const int16_t dataset : drawn_) ++needed_[static_cast<size_t>(dataset)];
    return {};
  }

  /// The run's first samples, then those of the new weights.
  Status draw_samples(int64_t size) {
    std::vector<int16_t> numbers;
    std::vector<double> weights;
    for (size_t i = 0; i < result_.datasets.size(); ++i) {
      if (result_.datasets[i].new_weight == 0) continue;
      numbers.push_back(static_cast<int16_t>(i));
      weights.push_back(result_.datasets[i].new_weight);
    }
    drawn_.resize(static_cast<size_t>(size));
    drawn_samples_.resize(static_cast<size_t>(size));
    for (int64_t i = 0; i < consumed_; ++i) {
      const auto [dataset, sample] = train_.at(i);
      drawn_[static_cast<size_t>(i)] = static_cast<int16_t>(dataset);
      drawn_samples_[static_cast<size_t>(i)] = sample;
    }
    const auto behind = static_cast<size_t>(consumed_);
    // The same mixture goes on where it stood.
    if (!mixture_.blend) return go_on(size);
    const auto datasets = std::span(drawn_).subspan(behind);
    const auto samples = std::span(drawn_samples_).subspan(behind);
    MEG_RETURN_IF_ERROR(build_blend_index(weights, datasets, samples, run_.cancelled));
    for (size_t i = 0; i < datasets.size(); ++i) {
      datasets[i] = numbers[static_cast<size_t>(datasets[i])];
      samples[i] += result_.datasets[static_cast<size_t>(datasets[i])].given;
    }
    return {};
  }

  Status go_on(int64_t size) {
    std::vector<int64_t> next;
    for (const ReblendedDataset& each : result_.datasets) next.push_back(each.given);
    for (int64_t i = consumed_; i < size; ++i) {
      // Beyond the run's own end its blend begins again.
      const auto dataset = static_cast<size_t>(train_.at(i % train_.size()).first);
      drawn_[static_cast<size_t>(i)] = static_cast<int16_t>(dataset);
      drawn_samples_[static_cast<size_t>(i)] = next[dataset]++;
    }
    return {};
  }

  Status continue_indices() {
    std::vector<Status> statuses(train_.parts.size());
    continued_.resize(train_.parts.size());
    MEG_RETURN_IF_ERROR(check_excluded());
    run_parallel(train_.parts.size(), [&](size_t i) { statuses[i] = continue_index(i); });
    for (size_t i = 0; i < statuses.size(); ++i) {
      if (!statuses[i].ok()) return statuses[i].with_prefix(train_.parts[i].asked.prefix);
    }
    return {};
  }

  Status check_excluded() const {
    for (const auto& [prefix, ranges] : mixture_.excluded) {
      if (run_.version.dataset_pad == megatron::DatasetPad::kNone) {
        return make_error(
            StatusCode::kUnsupported,
            "{}: documents can be excluded where Megatron pads samples, which {} does "
            "not",
            prefix, run_.version.name);
      }
      const bool known = std::ranges::any_of(train_.parts, [&prefix = prefix](const RunPart& part) {
        return part.asked.prefix == prefix;
      });
      if (!known) {
        return make_error(StatusCode::kInvalidArgument,
                          "{}: expected a dataset of the run to exclude documents of", prefix);
      }
    }
    return {};
  }

  Result<std::vector<dataset::SequenceRange>> excluded_sequences(const RunPart& part) const {
    std::vector<dataset::SequenceRange> sequences;
    const auto found = mixture_.excluded.find(part.asked.prefix);
    if (found == mixture_.excluded.end()) return sequences;
    const auto documents = part.dataset->document_indices();
    for (const auto& [begin, end] : found->second) {
      if (begin < 0 || begin > end || end > part.dataset->document_count()) {
        return make_error(StatusCode::kOutOfRange, "expected documents of [0, {}), found [{}, {})",
                          part.dataset->document_count(), begin, end);
      }
      sequences.push_back({documents[begin], documents[end]});
    }
    return sequences;
  }

  Status continue_index(size_t i) {
    const RunPart& part = train_.parts[i];
    ReblendedDataset& report = result_.datasets[i];
    MEG_ASSIGN_OR_RETURN(auto excluded, excluded_sequences(part));
    for (const auto& [begin, end] : excluded) {
      report.excluded_sequences +=
          std::max<int64_t>(std::min(end, part.range.end) - std::max(begin, part.range.begin), 0);
    }
    continued_[i].emplace(part.cache.index, part.cache.plan,
                          IndexSource{.lengths = part.dataset->sequence_lengths(),
                                      .range = part.range,
                                      .tokens = part.totals.tokens,
                                      .seed = static_cast<uint32_t>(run_.seed),
                                      .excluded = std::move(excluded)});
    ContinuedIndex& index = *continued_[i];
    MEG_RETURN_IF_ERROR(index.exclude(report.given));
    MEG_RETURN_IF_ERROR(index.extend(needed_[i], run_.cancelled));
    report.changed_samples = index.changed();
    report.dropped_samples = index.dropped();
    report.epoch_tokens = part.totals.tokens;
    report.epochs = index.epochs();
    report.left =
        index.first_epoch() == 0 ? -1 : std::max<int64_t>(index.first_epoch() - report.given, 0);
    return {};
  }

  /// New datasets are asked for by Megatron's own arithmetic.
  Status plan_new_dataset(ReblendedDataset& report, size_t i) {
    GptDatasets scratch;
    SplitDatasets sets(result_.config, cut_, {}, scratch);
    MEG_ASSIGN_OR_RETURN(const auto pooled, sets.open_dataset(report.prefix));
    MEG_ASSIGN_OR_RETURN(const auto dataset, pooled->pin());
    MEG_ASSIGN_OR_RETURN(const auto range, sets.range_of(Split::kTrain, *dataset));
    if (!range) {
      return make_error(StatusCode::kInvalidArgument, "{}: expected documents to train on",
                        report.prefix);
    }
    const Blend& blend = *blend_of(Split::kTrain, result_.config);
    MEG_ASSIGN_OR_RETURN(const BlendPlan plan, plan_blend(Split::kTrain, blend, result_.config));
    const GptIndexCacheRequest request =
        sets.request_for(Split::kTrain, plan.part(blend, i), *range, *dataset);
    CacheSource source(request, run_.version);
    MEG_ASSIGN_OR_RETURN(const LengthTotals totals, source.totals());
    MEG_ASSIGN_OR_RETURN(const GptIndexPlan index, source.plan(totals));
    report.epoch_tokens = totals.tokens;
    report.epochs = index.epochs;
    const bool is_apart = index.epochs == 2 && index.samples_before_last_epoch.has_value();
    report.left = index.epochs == 1 ? index.samples
                  : is_apart        ? *index.samples_before_last_epoch
                                    : -1;
    return {};
  }

  Status check_repeats() {
    for (size_t i = 0; i < result_.datasets.size(); ++i) {
      ReblendedDataset& report = result_.datasets[i];
      if (report.is_new) MEG_RETURN_IF_ERROR(plan_new_dataset(report, i));
    }
    for (int64_t i = consumed_; i < result_.samples; ++i) {
      ReblendedDataset& report =
          result_.datasets[static_cast<size_t>(drawn_[static_cast<size_t>(i)])];
      if (report.left < 0 || report.repeats_at) continue;
      const int64_t behind = drawn_samples_[static_cast<size_t>(i)] - report.given;
      if (behind >= report.left) report.repeats_at = i;
    }
    if (mixture_.allow_repeats) return {};
    for (const ReblendedDataset& report : result_.datasets) {
      if (report.to_come == 0 || (report.left >= report.to_come)) continue;
      return make_error(
          StatusCode::kInvalidArgument,
          "{}: expected {} samples that the run has not seen, found {}: give it a lower "
          "weight, end the run earlier, or allow repeats",
          report.prefix, report.to_come, std::max<int64_t>(report.left, 0));
    }
    return {};
  }

  // Writing: everything into a folder beside, which then appears by one rename.

  Status write() {
    const fs::path folder = *mixture_.cache_path;
    std::error_code error;
    if (fs::exists(folder, error) && !fs::is_empty(folder, error)) {
      return make_error(StatusCode::kInvalidArgument,
                        "{}: expected no folder, or an empty one, for the new caches",
                        folder.string());
    }
    fs::path partial = folder;
    if (!partial.has_filename()) partial = partial.parent_path();
    const fs::path target = partial;
    partial += ".partial";
    fs::remove_all(partial, error);
    fs::create_directories(partial, error);
    if (error) return errno_error(error.value(), partial.string());
    const Status status = write_into(partial);
    if (status.ok()) fs::rename(partial, target, error);
    if (status.ok() && !error) {
      for (IndexCacheReport& cache : result_.caches) move_paths(cache, target);
      return {};
    }
    std::error_code ignored;
    fs::permissions(partial, fs::perms::owner_all, ignored);
    fs::remove_all(partial, ignored);
    return status.ok() ? errno_error(error.value(), target.string()) : status;
  }

  static void move_paths(IndexCacheReport& cache, const fs::path& to) {
    const auto moved = [&](const std::string& path) {
      return path.empty() ? path : (to / fs::path(path).filename()).string();
    };
    cache.description = moved(cache.description);
    for (std::string& file : cache.files) file = moved(file);
  }

  Status write_into(const fs::path& folder) {
    GptDataConfig config = result_.config;
    config.cache_path = folder.string();
    GptDatasets scratch;
    SplitDatasets sets(config, cut_, {}, scratch);
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
    result_.caches = std::move(built.caches);
    MEG_RETURN_IF_ERROR(write_record(folder));
    // Without its cache Megatron would silently build another mixture: where the folder cannot be
    // written, it fails.
    std::error_code error;
    fs::permissions(folder,
                    fs::perms::owner_read | fs::perms::owner_exec | fs::perms::group_read |
                        fs::perms::group_exec | fs::perms::others_read | fs::perms::others_exec,
                    error);
    return error ? errno_error(error.value(), folder.string()) : Status();
  }

  Status write_train(const GptDataConfig& config, SplitDatasets& sets) {
    const Blend& blend = *blend_of(Split::kTrain, config);
    MEG_ASSIGN_OR_RETURN(BlendPlan plan, plan_blend(Split::kTrain, blend, config));
    std::vector<int64_t> sizes;
    for (size_t i = 0; i < continued_.size(); ++i) {
      MEG_RETURN_IF_ERROR(
          write_index(Split::kTrain, plan.part(blend, i), train_.parts[i], *continued_[i], sets));
      sizes.push_back(continued_[i]->samples());
    }
    if (plan.is_alone) return {};
    sizes.resize(blend.prefixes.size());
    for (size_t i = 0; i < sizes.size(); ++i) sizes[i] = std::max(sizes[i], needed_[i]);
    return write_blend(Split::kTrain, std::move(plan), blend, std::move(sizes), drawn_,
                       drawn_samples_, config, sets);
  }

  /// The samples of another split, as they were. They have other names by the new blend.
  Status write_unchanged(Split split, const GptDataConfig& config, SplitDatasets& sets) {
    if (config.samples[split_number(split)].value_or(1) == 0 ||
        !cut_->ranges(std::numeric_limits<int32_t>::max())[split_number(split)]) {
      return {};
    }
    MEG_ASSIGN_OR_RETURN(const auto opened, open_split(split));
    if (!opened || opened->size() == 0) return {};
    const Blend& blend = *blend_of(split, config);
    MEG_ASSIGN_OR_RETURN(BlendPlan plan, plan_blend(split, blend, config));
    std::vector<int64_t> sizes;
    for (size_t i = 0; i < opened->parts.size(); ++i) {
      const RunPart& run = opened->parts[i];
      const ContinuedIndex index(run.cache.index, run.cache.plan, {});
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
    CacheSource source(request, run_.version);
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
    nlohmann::ordered_json record;
    record["consumed_samples"] = consumed_;
    record["samples"] = result_.samples;
    for (const ReblendedDataset& each : result_.datasets) {
      record["datasets"].push_back({{"prefix", each.prefix},
                                    {"old_weight", each.old_weight},
                                    {"new_weight", each.new_weight},
                                    {"given", each.given},
                                    {"to_come", each.to_come}});
    }
    MEG_ASSIGN_OR_RETURN(io::AtomicFile file,
                         io::AtomicFile::create_under_lock((folder / kReblendRecord).string()));
    const std::string text =
        record.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
    MEG_RETURN_IF_ERROR(file.write(std::as_bytes(std::span(text))));
    return file.commit();
  }

  const GptDataConfig& run_;
  const int64_t consumed_;
  const NewMixture& mixture_;
  GptDatasets scratch_;
  std::optional<SplitWeights> cut_;
  std::optional<SplitDatasets> run_sets_;
  RunSplit train_;
  std::vector<std::optional<ContinuedIndex>> continued_;  ///< Of the run's datasets.
  std::vector<int16_t> drawn_;                            ///< The dataset of each sample.
  std::vector<int64_t> drawn_samples_;                    ///< Which of its samples that is.
  std::vector<int64_t> needed_;                           ///< Samples of each dataset.
  std::vector<std::string> notes_;
  Reblended result_;
};

}  // namespace

Result<Reblended> reblend(const GptDataConfig& run, int64_t consumed, const NewMixture& mixture) {
  try {
    return Reblender(run, consumed, mixture).reblend();
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted, "no memory for the indices of the run");
  }
}

}  // namespace meg::samples
