#include "libmeg/samples/data_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "libmeg/io/mapped_file.h"
#include "libmeg/megatron/python_number.h"
#include "libmeg/model/data_parallel_size.h"
#include "libmeg/text/printable.h"
#include "libmeg/text/whitespace.h"

// Megatron decides these things in several places (validate_args, the dataset builder, the
// trainer); here they are put together once, for programs that prepare or inspect a run's data and
// for the trainer. Nothing is opened but what a flag names. Decisions that a user may not expect
// become notes.

namespace meg::samples {
namespace {

constexpr std::string_view kDefaultSplit = "969, 30, 1";
constexpr size_t kMaxFileBytes = size_t{1} << 28;

Status usage(std::string message) {
  return Status(StatusCode::kInvalidArgument, std::move(message));
}

/// Parses a number of at least `least`; what: such as "`samples`".
Result<int64_t> parse_count(std::string_view text, int64_t least, std::string_view what) {
  const Result<int64_t> number = megatron::python_int(text);
  if (number.has_value() && *number >= least) return *number;
  return make_error(StatusCode::kInvalidArgument,
                    "{}: expected an integer of at least {}, found {}", what, least,
                    text::printable(text));
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  while (!(text = text::trimmed(text)).empty()) {
    const size_t end = std::min(text.find_first_of(text::kWhitespace), text.size());
    words.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return words;
}

Result<std::string> read_text(const std::string& path) {
  MEG_ASSIGN_OR_RETURN(const io::MappedFile file, io::MappedFile::open(path));
  // Lists of datasets have kilobytes; a dataset that is given by mistake must not be read as text.
  if (file.size() > kMaxFileBytes) {
    return make_error(StatusCode::kResourceExhausted, "{}: expected at most {} bytes, found {}",
                      path, kMaxFileBytes, file.size());
  }
  return std::string(file.text());
}

/// Reads a split of --per-split-data-args-path: a list of words or one string of them; null: none.
Result<std::vector<std::string>> words_of_split(const nlohmann::json& object,
                                                const std::string& path, Split split) {
  constexpr std::string_view kExpected = "expected an object with lists of strings";
  if (!object.is_object()) {
    return make_error(StatusCode::kCorruption, "{}: {}, found none", path, kExpected);
  }
  const auto found = object.find(split_name(split));
  if (found == object.end() || found->is_null()) return std::vector<std::string>();
  if (found->is_string()) return words_of(found->get_ref<const std::string&>());
  std::vector<std::string> words;
  bool right = found->is_array();
  for (size_t i = 0; right && i < found->size(); ++i) {
    right = (*found)[i].is_string();
    if (right) words.push_back((*found)[i].get<std::string>());
  }
  if (right) return words;
  // Told by its type alone: copying or printing a value goes as deep as it is nested.
  return make_error(StatusCode::kCorruption, "{}: {}, found a value of type {} as {}", path,
                    kExpected, found->type_name(), split_name(split));
}

struct DataPaths {
  std::vector<std::string> all;  ///< --data-path
  PerSplit<std::vector<std::string>> per_split;
};

Result<DataPaths> read_paths(const DataArgs& args) {
  DataPaths paths{.all = args.data_path, .per_split = args.per_split_path};
  if (args.data_args_path.has_value()) {
    MEG_ASSIGN_OR_RETURN(const std::string text, read_text(*args.data_args_path));
    paths.all = words_of(text);
  }
  if (args.per_split_data_args_path.has_value()) {
    for (const Split split : kSplits) {
      if (paths.per_split[split_number(split)].empty()) continue;
      return make_error(StatusCode::kInvalidArgument,
                        "expected one of `{}_data_path` and `per_split_data_args_path`",
                        split_name(split));
    }
    const std::string& path = *args.per_split_data_args_path;
    MEG_ASSIGN_OR_RETURN(const std::string text, read_text(path));
    // What is no JSON becomes a value of a kind of its own, which words_of_split refuses.
    const auto object = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    for (const Split split : kSplits) {
      MEG_ASSIGN_OR_RETURN(paths.per_split[split_number(split)],
                           words_of_split(object, path, split));
    }
  }
  return paths;
}

/// Checks as validate_args does. Older revisions passed over all sources of documents but one.
Status check_one_source(const DataArgs& args) {
  std::string own = args.per_split_data_args_path.has_value() ? "`per_split_data_args_path`" : "";
  for (const Split split : kSplits) {
    const bool given = !args.per_split_path[split_number(split)].empty();
    if (own.empty() && given) own = fmt::format("`{}_data_path`", split_name(split));
  }
  std::vector<std::string> sources;
  if (args.mock_data) sources.emplace_back("`mock_data`");
  if (!args.data_path.empty()) sources.emplace_back("`data_path`");
  if (args.data_args_path.has_value()) sources.emplace_back("`data_args_path`");
  if (!own.empty()) sources.push_back(own);
  if (sources.size() < 2) return Status();
  return make_error(StatusCode::kInvalidArgument, "expected one of {} and {}, found both",
                    sources[0], sources[1]);
}

using Notes = std::vector<std::string>;

Status resolve_blends(const DataArgs& args, GptDataConfig& config) {
  MEG_RETURN_IF_ERROR(check_one_source(args));
  if (args.mock_data) return Status();
  MEG_ASSIGN_OR_RETURN(const DataPaths paths, read_paths(args));
  if (!paths.all.empty()) {
    MEG_ASSIGN_OR_RETURN(config.blend, parse_blend(paths.all, config.version));
  }
  bool any = config.blend.has_value();
  for (const Split split : kSplits) {
    const std::vector<std::string>& words = paths.per_split[split_number(split)];
    if (words.empty()) continue;
    const Result<Blend> blend = parse_blend(words, config.version);
    if (!blend.has_value()) {
      return blend.error().with_prefix(fmt::format("{} split", split_name(split)));
    }
    config.per_split[split_number(split)] = *blend;
    any = true;
  }
  return any ? Status() : usage("`data_path` is required");
}

Status resolve_surplus(const DataArgs& args, GptDataConfig& config) {
  const double surplus = args.mid_level_dataset_surplus.value_or(kMidLevelDatasetSurplus);
  // Before, the blend's own size has the margin, so that another one would be another run.
  if (config.version.blend_margin == megatron::BlendMargin::kOnTop ||
      surplus == kMidLevelDatasetSurplus) {
    config.mid_level_dataset_surplus = surplus;
    return Status();
  }
  return make_error(StatusCode::kUnsupported, "`mid_level_dataset_surplus`: {} has none",
                    config.version.name);
}

/// Copies of the model, each of which sees other samples. Without a world size one copy is assumed,
/// as the numbers of ranks that share it do not change what it sees.
Result<int64_t> data_parallel_size(const DataArgs& args,
                                   const std::optional<std::string>& environment) {
  std::optional<int64_t> ranks = args.world_size;
  // Set by torchrun; the flag comes first, so that a run can be prepared on another machine.
  if (!ranks.has_value() && environment.has_value()) {
    MEG_ASSIGN_OR_RETURN(ranks, parse_count(*environment, 1, "WORLD_SIZE"));
  }
  if (!ranks.has_value()) return int64_t{1};
  return model::data_parallel_size(*ranks, args.tensor_model_parallel_size,
                                   args.pipeline_model_parallel_size, args.context_parallel_size);
}

Result<std::optional<BatchRampup>> resolve_rampup(const DataArgs& args,
                                                  const megatron::MegatronVersion& version,
                                                  Notes& notes) {
  const std::vector<std::string>& words = args.rampup_batch_size;
  if (words.empty()) return std::optional<BatchRampup>();
  constexpr std::string_view kField = "`rampup_batch_size`";
  if (words.size() != 3) {
    return make_error(StatusCode::kInvalidArgument,
                      "{}: expected START INCREMENT SAMPLES, found {} values", kField,
                      words.size());
  }
  // This applies only where the user names such a revision: by default the flag does what it says.
  if (args.megatron_version.has_value() && version.rampup_steps == megatron::RampupSteps::kNone) {
    notes.push_back(fmt::format("{} has no effect in {} of Megatron-LM", kField, version.name));
    return std::optional<BatchRampup>();
  }
  BatchRampup rampup;
  MEG_ASSIGN_OR_RETURN(rampup.start, parse_count(words[0], 1, kField));
  MEG_ASSIGN_OR_RETURN(rampup.increment, parse_count(words[1], 1, kField));
  MEG_ASSIGN_OR_RETURN(rampup.samples, parse_count(words[2], 1, kField));
  return std::optional(rampup);
}

/// A number with a suffix K, M, B or T for thousands, millions, billions and trillions, cut to an
/// integer. Mirrors megatron/core/num_microbatches_calculator.py: _parse_numeric_value.
Result<int64_t> parse_amount(std::string_view text, std::string_view what) {
  constexpr std::array<double, 4> kUnits = {1e3, 1e6, 1e9, 1e12};
  std::string_view number = text;
  double unit = 1;
  const size_t suffix = std::string_view("KMBTkmbt").find(text.empty() ? ' ' : text.back());
  if (suffix != std::string_view::npos) {
    number.remove_suffix(1);
    unit = kUnits[suffix % kUnits.size()];
  }
  const Result<double> value = megatron::python_float(number);
  if (value.has_value() && *value >= 0 && *value * unit <= 0x1p53) {
    return static_cast<int64_t>(*value * unit);
  }
  return make_error(StatusCode::kInvalidArgument,
                    "{}: expected a number up to 2^53 with or without K, M, B or T, found {}", what,
                    text::printable(text));
}

/// "0:768 250B:1536": batch sizes from numbers of tokens on. Mirrors
/// megatron/core/num_microbatches_calculator.py: StepBatchsizeNumMicroBatchesCalculator.
Result<std::vector<BatchChange>> resolve_changes(const DataArgs& args) {
  constexpr std::string_view kField = "`step_batch_size_schedule`";
  std::vector<BatchChange> changes;
  if (!args.step_batch_size_schedule.has_value()) return changes;
  if (!args.rampup_batch_size.empty()) {
    return usage("`step_batch_size_schedule`: cannot be combined with `rampup_batch_size`");
  }
  if (*args.sequence_length < 1) return usage("`seq_length`: expected at least 1");
  std::string schedule = *args.step_batch_size_schedule;
  std::replace(schedule.begin(), schedule.end(), ',', ' ');
  for (const std::string& entry : words_of(schedule)) {
    const size_t colon = entry.find(':');
    if (colon == std::string::npos) {
      return make_error(StatusCode::kInvalidArgument, "{}: expected TOKENS:BATCH_SIZE, found {}",
                        kField, text::printable(entry));
    }
    BatchChange change;
    MEG_ASSIGN_OR_RETURN(const int64_t tokens, parse_amount(entry.substr(0, colon), kField));
    MEG_ASSIGN_OR_RETURN(change.batch_size, parse_amount(entry.substr(colon + 1), kField));
    change.samples = tokens / *args.sequence_length;
    changes.push_back(change);
  }
  if (!changes.empty()) return changes;
  return make_error(StatusCode::kInvalidArgument, "{}: expected TOKENS:BATCH_SIZE, found nothing",
                    kField);
}

Result<BatchSchedule> resolve_batches(const DataArgs& args, int64_t ranks,
                                      const megatron::MegatronVersion& version, Notes& notes) {
  // --samples states numbers of samples outright, which need no batch size to follow from.
  if (!args.micro_batch_size.has_value() && !args.global_batch_size.has_value() &&
      !args.samples.has_value()) {
    return usage("`micro_batch_size` or `global_batch_size` is required");
  }
  MEG_ASSIGN_OR_RETURN(const std::optional<BatchRampup> rampup,
                       resolve_rampup(args, version, notes));
  MEG_ASSIGN_OR_RETURN(std::vector<BatchChange> changes, resolve_changes(args));
  MEG_ASSIGN_OR_RETURN(
      BatchSchedule batches,
      BatchSchedule::create({.global_batch_size = args.global_batch_size.value_or(0),
                             .micro_batch_size = args.micro_batch_size.value_or(1),
                             .data_parallel_size = ranks,
                             .rampup = rampup,
                             .changes = std::move(changes)}));
  // Checkpoints have both: Megatron writes the size that it takes where none is given.
  const int64_t least = args.micro_batch_size.value_or(1) * ranks;
  if (args.step_batch_size_schedule.has_value() && batches.global_batch_size() != least) {
    return usage(
        "`step_batch_size_schedule`: cannot be combined with `global_batch_size`, which is the "
        "micro batch size times the data-parallel size beside it");
  }
  return batches;
}

/// "100,10,None": Megatron's tuple of requested samples, in which None means one epoch.
Result<PerSplit<std::optional<int64_t>>> parse_samples(std::string_view text) {
  PerSplit<std::optional<int64_t>> samples;
  std::string_view rest = text;
  for (const Split split : kSplits) {
    const size_t comma = rest.find(',');
    const bool last = split == Split::kTest;
    if ((comma == std::string_view::npos) != last) {
      return make_error(StatusCode::kInvalidArgument,
                        "`samples`: expected TRAIN,VALID,TEST, found {}", text::printable(text));
    }
    const std::string_view word = text::trimmed(rest.substr(0, comma));
    rest.remove_prefix(last ? rest.size() : comma + 1);
    if (word == "None") continue;
    MEG_ASSIGN_OR_RETURN(samples[split_number(split)], parse_count(word, 0, "`samples`"));
  }
  return samples;
}

Status resolve_counts(const DataArgs& args, DataRun& run) {
  if (args.samples.has_value()) {
    MEG_ASSIGN_OR_RETURN(run.config.samples, parse_samples(*args.samples));
    const std::optional<int64_t> train = run.config.samples[split_number(Split::kTrain)];
    run.train_iters = train.has_value() ? run.batches.steps_for(*train) : 0;
    return Status();
  }
  MEG_ASSIGN_OR_RETURN(const SampleCounts counts,
                       count_samples(args.length, run.batches, run.config.version));
  run.config.samples = counts.samples;
  run.train_iters = counts.train_iters;
  const int64_t consumed = run.batches.consumed_before(run.train_iters + 1);
  if (args.step_batch_size_schedule.has_value() && args.length.train_iters.has_value() &&
      consumed > counts.samples[split_number(Split::kTrain)]) {
    run.notes.push_back(fmt::format(
        "`train_iters` with `step_batch_size_schedule`: as Megatron, asks the datasets for "
        "{} samples, of which the run consumes {}; with `train_samples` it asks for all",
        *counts.samples[split_number(Split::kTrain)], consumed));
  }
  return Status();
}

/// The format that a value of --data-impl names: lazy and cached are two of Megatron's readers of
/// one format.
std::optional<dataset::IndexFormat> format_of(std::string_view data_impl) {
  if (data_impl == "infer") return std::nullopt;
  return data_impl == "mmap" ? dataset::IndexFormat::kMmididx : dataset::IndexFormat::kTntidx;
}

void read_datasets(megatron::FieldReader& args, DataArgs& data) {
  auto& [train, valid, test] = data.per_split_path;
  args.take("data_path", data.data_path);
  args.take("train_data_path", train);
  args.take("valid_data_path", valid);
  args.take("test_data_path", test);
  args.take("data_args_path", data.data_args_path);
  args.take("per_split_data_args_path", data.per_split_data_args_path);
  args.take("mock_data", data.mock_data);
  args.take("sft", data.sft);
  args.take("data_impl", data.data_impl);
  args.take("split", data.split);
  args.take("seq_length", data.sequence_length);
  args.take("seed", data.seed);
  args.take("data_cache_path", data.cache_path);
  args.take("object_storage_cache_path", data.object_storage_cache_path);
  args.take("num_dataset_builder_threads", data.dataset_builder_threads);
  args.take("mid_level_dataset_surplus", data.mid_level_dataset_surplus);
  args.take("dataloader_defer_npy_index_mmap", data.defer_npy_index_mmap);
}

void read_length(megatron::FieldReader& args, RunLength& length) {
  args.take("train_iters", length.train_iters);
  args.take("train_samples", length.train_samples);
  args.take("eval_iters", length.eval_iters);
  args.take("eval_interval", length.eval_interval);
  args.take("start_eval_at_iter", length.start_eval_at_iter);
  args.take("eval_global_batch_size", length.eval_global_batch_size);
  args.take("eval_micro_batch_size", length.eval_micro_batch_size);
  args.take("full_validation", length.full_validation);
  args.take("skip_train", length.skip_train);
}

void read_batches(megatron::FieldReader& args, DataArgs& data) {
  args.take("micro_batch_size", data.micro_batch_size);
  args.take("global_batch_size", data.global_batch_size);
  args.take("rampup_batch_size", data.rampup_batch_size);
  args.take("step_batch_size_schedule", data.step_batch_size_schedule);
  args.take("tensor_model_parallel_size", data.tensor_model_parallel_size);
  args.take("pipeline_model_parallel_size", data.pipeline_model_parallel_size);
  args.take("context_parallel_size", data.context_parallel_size);
  args.take("dataloader_type", data.dataloader_type);
  args.take("reset_position_ids", data.reset_position_ids);
  args.take("reset_attention_mask", data.reset_attention_mask);
  args.take("eod_mask_loss", data.eod_mask_loss);
  args.take("allow_ambiguous_pad_tokens", data.allow_ambiguous_pad_tokens);
  args.take("create_attention_mask_in_dataloader", data.create_attention_mask);
}

}  // namespace

void DataArgs::take_fields(megatron::FieldReader& args) {
  read_datasets(args, *this);
  read_length(args, length);
  read_batches(args, *this);
}

Result<DataRun> resolve_data(const DataArgs& args,
                             const std::optional<std::string>& environment_world_size) {
  Notes notes;
  GptDataConfig config;
  if (args.megatron_version.has_value()) {
    MEG_ASSIGN_OR_RETURN(config.version, megatron::parse_megatron_version(*args.megatron_version));
  }
  MEG_RETURN_IF_ERROR(resolve_blends(args, config));
  MEG_RETURN_IF_ERROR(resolve_surplus(args, config));
  if (!args.sequence_length.has_value()) return usage("`seq_length` is required");
  // Megatron asserts it.
  if (args.defer_npy_index_mmap && !args.cache_path.has_value()) {
    return usage("`data_cache_path` is required with `dataloader_defer_npy_index_mmap`");
  }
  MEG_ASSIGN_OR_RETURN(const int64_t ranks, data_parallel_size(args, environment_world_size));
  MEG_ASSIGN_OR_RETURN(BatchSchedule batches, resolve_batches(args, ranks, config.version, notes));
  if (args.sft && args.mock_data) return usage("`sft`: cannot be combined with `mock_data`");
  config.packed = args.sft;
  config.sequence_length = *args.sequence_length;
  config.seed = args.seed;
  config.split = args.split.value_or(std::string(kDefaultSplit));
  // Pass only what the user gave: the default is no part of the descriptions of datasets of their
  // own.
  config.per_split_split = args.split;
  config.format = format_of(args.data_impl);
  config.cache_path = args.cache_path;
  config.defer_npy_index_mmap = args.defer_npy_index_mmap;
  config.object_storage_cache_path = args.object_storage_cache_path;
  config.threads = static_cast<int>(args.dataset_builder_threads);
  config.extra_token = !args.no_extra_token;
  config.drop_last_partial_validation_sequence = !args.keep_last_validation_sequence;
  DataRun run{.config = std::move(config),
              .batches = std::move(batches),
              .dataloader_type = args.dataloader_type == "cyclic" ? DataloaderType::kCyclic
                                                                  : DataloaderType::kSingle,
              .micro_batch_size = args.micro_batch_size.value_or(1),
              .data_parallel_size = ranks,
              .notes = std::move(notes)};
  MEG_RETURN_IF_ERROR(resolve_counts(args, run));
  return run;
}

}  // namespace meg::samples
