#include "libmeg/samples/reblend.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <utility>

#include "libmeg/samples/cache/internal/cache_files.h"
#include "libmeg/samples/cache/internal/cache_source.h"
#include "libmeg/samples/internal/blend_datasets.h"
#include "libmeg/samples/internal/continued_index.h"
#include "libmeg/samples/internal/reblend/drawn_samples.h"
#include "libmeg/samples/internal/reblend/reblend_record.h"
#include "libmeg/samples/internal/reblend/reblended_caches.h"
#include "libmeg/samples/internal/reblend/run_splits.h"
#include "libmeg/samples/internal/split_datasets.h"

namespace meg::samples {
namespace {

/// Which prefixes name one dataset, by whatever paths and links, or two of one .bin.
class DatasetNames {
 public:
  /// Numbers of datasets in the order in which they were added.
  struct Found {
    std::optional<size_t> same;
    std::optional<size_t> viewed;  ///< The first one with the same .bin and another .idx.
  };

  Found find(const std::string& prefix) const {
    if (const auto named = by_prefix_.find(prefix); named != by_prefix_.end()) {
      return {.same = named->second, .viewed = {}};
    }
    Found found;
    const auto bin = file_at(prefix + ".bin"), idx = file_at(prefix + ".idx");
    const auto [begin, end] = by_bin_.equal_range(bin.value_or(File()));
    for (auto at = begin; bin && at != end; ++at) {
      const auto& [known_idx, number] = at->second;
      std::optional<size_t>& into = idx && known_idx == idx ? found.same : found.viewed;
      if (!into) into = number;
    }
    return found;
  }

  void add(const std::string& prefix) {
    const size_t number = count_++;
    by_prefix_.try_emplace(prefix, number);
    if (const auto bin = file_at(prefix + ".bin")) {
      by_bin_.emplace(*bin, std::pair(file_at(prefix + ".idx"), number));
    }
  }

 private:
  using File = std::pair<dev_t, ino_t>;

  static std::optional<File> file_at(const std::string& path) {
    struct stat file {};

    if (::stat(path.c_str(), &file) != 0) return std::nullopt;
    return File(file.st_dev, file.st_ino);
  }

  size_t count_ = 0;
  std::map<std::string, size_t> by_prefix_;
  std::multimap<File, std::pair<std::optional<File>, size_t>> by_bin_;
};

/// The run's own indices and those of its continuation.
class Reblender {
 public:
  Reblender(const GptDataConfig& run, int64_t consumed, const NewMixture& mixture)
      : run_(run), consumed_(consumed), mixture_(mixture) {}

  Result<Reblended> reblend() {
    MEG_RETURN_IF_ERROR(check_run());
    MEG_ASSIGN_OR_RETURN(cut_, cut_of(run_));
    splits_.emplace(run_, cut_);
    MEG_ASSIGN_OR_RETURN(auto train, splits_->open(Split::kTrain));
    if (!train) {
      return Status(StatusCode::kInvalidArgument, "the run has no documents to train on");
    }
    train_ = *std::move(train);
    MEG_RETURN_IF_ERROR(name_datasets());
    MEG_RETURN_IF_ERROR(take_record());
    MEG_RETURN_IF_ERROR(count_given());
    MEG_RETURN_IF_ERROR(add_new_datasets());
    MEG_RETURN_IF_ERROR(draw());
    MEG_RETURN_IF_ERROR(continue_indices());
    MEG_RETURN_IF_ERROR(check_repeats());
    if (mixture_.cache_path) MEG_RETURN_IF_ERROR(write());
    return std::move(result_);
  }

 private:
  static Result<std::optional<SplitWeights>> cut_of(const GptDataConfig& config) {
    if (!config.blend) return std::optional<SplitWeights>();
    MEG_ASSIGN_OR_RETURN(SplitWeights cut, SplitWeights::parse(config.split, config.version));
    return std::optional(std::move(cut));
  }

  static Status check_is_local(const Blend& blend) {
    for (const std::string& prefix : blend.prefixes) {
      if (prefix.find("://") == prefix.npos) continue;
      return make_error(StatusCode::kUnsupported,
                        "{}: expected a dataset of this machine, found one in a store", prefix);
    }
    return {};
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
    if (run_.packed) {
      return make_error(StatusCode::kUnsupported,
                        "`sft`: samples of packed data cannot be continued with another blend");
    }
    for (const Split split : kSplits) {
      const Blend* const blend = blend_of(split, run_);
      if (blend != nullptr) MEG_RETURN_IF_ERROR(check_is_local(*blend));
    }
    if (mixture_.blend) MEG_RETURN_IF_ERROR(check_is_local(*mixture_.blend));
    if (mixture_.cache_path && mixture_.cache_path->find("://") != std::string::npos) {
      return make_error(
          StatusCode::kUnsupported,
          "{}: expected a folder of this machine for the caches, found one in a store",
          *mixture_.cache_path);
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

  Status name_datasets() {
    const Blend& blend = *blend_of(Split::kTrain, run_);
    for (size_t i = 0; i < blend.prefixes.size(); ++i) {
      const std::string& prefix = blend.prefixes[i];
      const auto [same, viewed] = names_.find(prefix);
      if (same) {
        const std::string& other = blend.prefixes[*same];
        return make_error(StatusCode::kUnsupported,
                          "{}: expected each dataset once in the run's blend, found it twice{}: "
                          "its samples are seen twice too",
                          prefix, prefix == other ? "" : ", as " + other);
      }
      if (viewed) {
        result_.notes.push_back(
            fmt::format("{} and {} have one .bin: what is in both is seen twice",
                        blend.prefixes[*viewed], prefix));
      }
      names_.add(prefix);
      ReblendedDataset& added = result_.datasets.emplace_back();
      added.prefix = prefix;
      added.old_weight = train_.weights[i];
    }
    return {};
  }

  /// What an earlier reblend() of the run has decided.
  Status take_record() {
    if (!run_.cache_path) return {};
    MEG_ASSIGN_OR_RETURN(const auto record, read_reblend_record(*run_.cache_path));
    if (!record) return {};
    const bool is_of_run =
        std::ranges::equal(record->datasets, result_.datasets, {}, &ReblendRecord::Dataset::prefix,
                           &ReblendedDataset::prefix);
    if (!is_of_run || record->weights_from > train_.size()) {
      return make_error(StatusCode::kCorruption,
                        "{}/{}: expected what reblend has written for the run's datasets, found "
                        "others",
                        *run_.cache_path, kReblendRecord);
    }
    result_.weights_from = record->weights_from;
    for (size_t i = 0; i < record->datasets.size(); ++i) {
      result_.datasets[i].old_weight = record->datasets[i].weight;
      result_.datasets[i].excluded = record->datasets[i].excluded;
    }
    return {};
  }

  /// Each dataset's samples are drawn in order, so that what it has given is a number.
  Status count_given() {
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

  /// The number of the dataset that a prefix names, by whatever path; the number of datasets for
  /// one that is new.
  Result<size_t> number_of(const std::string& prefix) {
    const auto [same, viewed] = names_.find(prefix);
    if (same) {
      const std::string& known = result_.datasets[*same].prefix;
      if (known != prefix) {
        result_.notes.push_back(
            fmt::format("{}: the dataset that the run knows as {}", prefix, known));
      }
      return *same;
    }
    if (viewed && !result_.datasets[*viewed].is_new) {
      return make_error(StatusCode::kInvalidArgument,
                        "{}: expected a dataset with tokens of its own, found a view of those of "
                        "{}, some of which the run has seen",
                        prefix, result_.datasets[*viewed].prefix);
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
        names_.add(added.prefix);
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
    if (mixture_.blend) result_.weights_from = consumed_;
    const DrawSource source{.run = train_,
                            .consumed = consumed_,
                            .kept = mixture_.blend ? consumed_ : train_.size(),
                            .weights_from = result_.weights_from,
                            .datasets = result_.datasets};
    MEG_ASSIGN_OR_RETURN(drawn_, draw_samples(source, most, run_.cancelled));
    const std::vector<int64_t> whole = drawn_.counts(result_.datasets.size(), total);
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
    drawn_.cut_to(size);
    needed_ = drawn_.counts(result_.datasets.size(), size);
    return {};
  }

  Status continue_indices() {
    MEG_RETURN_IF_ERROR(take_excluded());
    continued_.resize(train_.parts.size());
    return for_each_part(train_.parts.size(), [&](size_t i) {
      return continue_index(i).with_prefix(train_.parts[i].asked.prefix);
    });
  }

  Status take_excluded() {
    for (const auto& [prefix, ranges] : mixture_.excluded) {
      if (run_.version.dataset_pad == megatron::DatasetPad::kNone) {
        return make_error(StatusCode::kUnsupported,
                          "{}: documents can be excluded where Megatron pads samples, which {} "
                          "does not",
                          prefix, run_.version.name);
      }
      MEG_ASSIGN_OR_RETURN(const size_t number, number_of(prefix));
      if (number >= train_.parts.size()) {
        return make_error(StatusCode::kInvalidArgument,
                          "{}: expected a dataset of the run to exclude documents of: of one that "
                          "is new, a view without them",
                          prefix);
      }
      std::vector<dataset::SequenceRange>& all = result_.datasets[number].excluded;
      all = united(std::move(all), ranges);
    }
    return {};
  }

  static Result<std::vector<dataset::SequenceRange>> excluded_sequences(
      const std::vector<dataset::SequenceRange>& excluded, const dataset::IndexedDataset& dataset) {
    std::vector<dataset::SequenceRange> sequences;
    const auto documents = dataset.document_indices();
    for (const auto& [begin, end] : excluded) {
      if (begin < 0 || begin > end || end > dataset.document_count()) {
        return make_error(StatusCode::kOutOfRange, "expected documents of [0, {}), found [{}, {})",
                          dataset.document_count(), begin, end);
      }
      sequences.push_back({documents[begin], documents[end]});
    }
    return sequences;
  }

  Status continue_index(size_t i) {
    const RunPart& part = train_.parts[i];
    ReblendedDataset& report = result_.datasets[i];
    MEG_ASSIGN_OR_RETURN(auto excluded, excluded_sequences(report.excluded, *part.dataset));
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
      const auto place = static_cast<size_t>(i);
      ReblendedDataset& report = result_.datasets[static_cast<size_t>(drawn_.datasets[place])];
      if (report.left < 0 || report.repeats_at) continue;
      const int64_t behind = drawn_.samples[place] - report.given;
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

  Status write() {
    const ContinuedRun continued{.before = *splits_,
                                 .train = train_,
                                 .consumed = consumed_,
                                 .cut = cut_,
                                 .indices = continued_,
                                 .needed = needed_,
                                 .drawn = drawn_,
                                 .now = result_};
    MEG_ASSIGN_OR_RETURN(result_.caches, write_reblended_caches(continued, *mixture_.cache_path));
    return {};
  }

  const GptDataConfig& run_;
  const int64_t consumed_;
  const NewMixture& mixture_;
  std::optional<SplitWeights> cut_;
  std::optional<RunSplits> splits_;
  RunSplit train_;
  DatasetNames names_;                                    ///< Of result_.datasets.
  std::vector<std::optional<ContinuedIndex>> continued_;  ///< Of the run's datasets.
  DrawnSamples drawn_;
  std::vector<int64_t> needed_;  ///< Samples of each dataset.
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
