#include "tools/common/data_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "libmeg/io/mapped_file.h"
#include "libmeg/model/data_parallel_size.h"
#include "libmeg/text/printable.h"
#include "libmeg/text/whitespace.h"
#include "libmeg/tokenizer/identify_tokenizer.h"
#include "tools/common/interruption.h"
#include "tools/common/report.h"

// Megatron decides these things in several places (validate_args, the dataset builder, the
// trainer); here they are put together once, for programs that prepare or inspect a run's data and
// for the trainer. Nothing is opened but what a flag names. Decisions that a user may not expect
// become notes.

namespace meg::tools {
namespace {

constexpr std::string_view kDefaultSplit = "969, 30, 1";
constexpr size_t kMaxFileBytes = size_t{1} << 28;

Status usage(std::string message) {
  return Status(StatusCode::kInvalidArgument, std::move(message));
}

/// At least `least`; what: such as "--samples".
Result<int64_t> parse_count(std::string_view text, int64_t least, std::string_view what) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size() && number >= least) return number;
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
  if (file.size() > kMaxFileBytes) {
    return make_error(StatusCode::kResourceExhausted, "{}: expected at most {} bytes, found {}",
                      path, kMaxFileBytes, file.size());
  }
  return std::string(reinterpret_cast<const char*>(file.bytes().data()), file.size());
}

/// Of --per-split-data-args-path: a list of words or one string of them; null: none.
Result<std::vector<std::string>> words_of_split(const nlohmann::json& object,
                                                const std::string& path, samples::Split split) {
  const std::string key(samples::split_name(split));
  const nlohmann::json value = object.is_object() ? object.value(key, nlohmann::json()) : object;
  if (object.is_object() && value.is_null()) return std::vector<std::string>();
  if (value.is_string()) return words_of(value.get_ref<const std::string&>());
  std::vector<std::string> words;
  bool right = object.is_object() && value.is_array();
  for (size_t i = 0; right && i < value.size(); ++i) {
    right = value[i].is_string();
    if (right) words.push_back(value[i].get<std::string>());
  }
  if (right) return words;
  return make_error(StatusCode::kCorruption,
                    "{}: expected an object with lists of strings, found {}", path,
                    object.is_object() ? text::printable(value.dump().substr(0, 60)) : "none");
}

/// Says once what is waited for; Ctrl-C ends the waiting.
bool wait_for_cache(const std::string& cache) {
  static std::mutex mutex;
  static std::set<std::string> said;
  const std::lock_guard lock(mutex);
  // Called about 20 times a second, by several threads.
  if (said.insert(cache).second) note("waiting for another process to build " + cache);
  return !interrupted();
}

struct DataPaths {
  std::vector<std::string> all;  ///< --data-path
  samples::PerSplit<std::vector<std::string>> per_split;
};

Result<DataPaths> read_paths(const DataFlags& data) {
  DataPaths paths{.all = data.data_path, .per_split = data.per_split_path};
  if (data.data_args_path.has_value()) {
    if (!paths.all.empty()) return usage("expected one of --data-path and --data-args-path");
    MEG_ASSIGN_OR_RETURN(const std::string text, read_text(*data.data_args_path));
    paths.all = words_of(text);
  }
  if (data.per_split_data_args_path.has_value()) {
    for (const samples::Split split : samples::kSplits) {
      if (paths.per_split[samples::split_number(split)].empty()) continue;
      return make_error(StatusCode::kInvalidArgument,
                        "expected one of --{}-data-path and --per-split-data-args-path",
                        samples::split_name(split));
    }
    const std::string& path = *data.per_split_data_args_path;
    MEG_ASSIGN_OR_RETURN(const std::string text, read_text(path));
    // Without exceptions: what is no JSON becomes a value of its own kind, which words_of_split
    // refuses.
    const auto object = nlohmann::json::parse(text, nullptr, false);
    for (const samples::Split split : samples::kSplits) {
      MEG_ASSIGN_OR_RETURN(paths.per_split[samples::split_number(split)],
                           words_of_split(object, path, split));
    }
  }
  return paths;
}

using Notes = std::vector<std::string>;

Status resolve_blends(const DataFlags& data, samples::GptDataConfig& config, Notes& notes) {
  if (data.mock_data) return Status();
  MEG_ASSIGN_OR_RETURN(const DataPaths paths, read_paths(data));
  if (!paths.all.empty()) {
    MEG_ASSIGN_OR_RETURN(config.blend, samples::parse_blend(paths.all, config.version));
  }
  bool any = config.blend.has_value();
  for (const samples::Split split : samples::kSplits) {
    const std::vector<std::string>& words = paths.per_split[samples::split_number(split)];
    if (words.empty()) continue;
    if (config.blend.has_value()) {
      notes.push_back(
          fmt::format("--{}-data-path is not used beside --data-path", samples::split_name(split)));
      continue;
    }
    const Result<samples::Blend> blend = samples::parse_blend(words, config.version);
    if (!blend.has_value()) {
      return blend.error().with_prefix(fmt::format("{} split", samples::split_name(split)));
    }
    config.per_split[samples::split_number(split)] = *blend;
    any = true;
  }
  return any ? Status() : usage("--data-path is required");
}

/// Of the data-parallel group.
Result<int64_t> data_parallel_size(const DataFlags& data,
                                   const std::optional<std::string>& environment) {
  std::optional<int64_t> ranks = data.world_size;
  if (!ranks.has_value() && environment.has_value()) {
    MEG_ASSIGN_OR_RETURN(ranks, parse_count(*environment, 1, "WORLD_SIZE"));
  }
  if (!ranks.has_value()) return int64_t{1};
  return model::data_parallel_size(*ranks, data.tensor_model_parallel_size,
                                   data.pipeline_model_parallel_size, data.context_parallel_size);
}

Result<std::optional<samples::BatchRampup>> resolve_rampup(const DataFlags& data,
                                                           const megatron::MegatronVersion& version,
                                                           Notes& notes) {
  const std::vector<std::string>& words = data.rampup_batch_size;
  if (words.empty()) return std::optional<samples::BatchRampup>();
  constexpr std::string_view kFlag = "--rampup-batch-size";
  if (words.size() != 3) {
    return make_error(StatusCode::kInvalidArgument,
                      "{}: expected START INCREMENT SAMPLES, found {} values", kFlag, words.size());
  }
  // Only where the user names such a revision: by default the flag does what it says.
  if (data.megatron_version.has_value() && version.rampup_steps == megatron::RampupSteps::kNone) {
    notes.push_back(fmt::format("{} has no effect at {} of Megatron-LM", kFlag, version.name));
    return std::optional<samples::BatchRampup>();
  }
  samples::BatchRampup rampup;
  MEG_ASSIGN_OR_RETURN(rampup.start, parse_count(words[0], 1, kFlag));
  MEG_ASSIGN_OR_RETURN(rampup.increment, parse_count(words[1], 1, kFlag));
  MEG_ASSIGN_OR_RETURN(rampup.samples, parse_count(words[2], 1, kFlag));
  return std::optional(rampup);
}

Result<samples::BatchSchedule> resolve_batches(const DataFlags& data, int64_t ranks,
                                               const megatron::MegatronVersion& version,
                                               Notes& notes) {
  // --samples states numbers of samples outright, which need no batch size to follow from.
  if (!data.micro_batch_size.has_value() && !data.global_batch_size.has_value() &&
      !data.samples.has_value()) {
    return usage("--micro-batch-size or --global-batch-size is required");
  }
  MEG_ASSIGN_OR_RETURN(const std::optional<samples::BatchRampup> rampup,
                       resolve_rampup(data, version, notes));
  return samples::BatchSchedule::create({.global_batch_size = data.global_batch_size.value_or(0),
                                         .micro_batch_size = data.micro_batch_size.value_or(1),
                                         .data_parallel_size = ranks,
                                         .rampup = rampup});
}

Status check_tokenizers(const DataFlags& data, const samples::GptDataConfig& config) {
  std::vector<std::string> prefixes;
  const auto add = [&prefixes](const std::optional<samples::Blend>& blend) {
    if (blend) prefixes.insert(prefixes.end(), blend->prefixes.begin(), blend->prefixes.end());
  };
  add(config.blend);
  for (const auto& blend : config.per_split) add(blend);
  MEG_ASSIGN_OR_RETURN(const tokenizer::TokenizerOptions options, tokenizer_options(data));
  return check_dataset_tokenizers(prefixes, options);
}

/// "100,10,None"
Result<samples::PerSplit<std::optional<int64_t>>> parse_samples(std::string_view text) {
  samples::PerSplit<std::optional<int64_t>> samples;
  std::string_view rest = text;
  for (const samples::Split split : samples::kSplits) {
    const size_t comma = rest.find(',');
    const bool last = split == samples::Split::kTest;
    if ((comma == std::string_view::npos) != last) {
      return make_error(StatusCode::kInvalidArgument,
                        "--samples: expected TRAIN,VALID,TEST, found {}", text::printable(text));
    }
    const std::string_view word = text::trimmed(rest.substr(0, comma));
    rest.remove_prefix(last ? rest.size() : comma + 1);
    if (word == "None") continue;
    MEG_ASSIGN_OR_RETURN(samples[samples::split_number(split)], parse_count(word, 0, "--samples"));
  }
  return samples;
}

Status resolve_counts(const DataFlags& data, DataRun& run) {
  if (data.samples.has_value()) {
    MEG_ASSIGN_OR_RETURN(run.config.samples, parse_samples(*data.samples));
    const std::optional<int64_t> train =
        run.config.samples[samples::split_number(samples::Split::kTrain)];
    run.train_iters = train.has_value() ? run.batches.steps_for(*train) : 0;
    return Status();
  }
  MEG_ASSIGN_OR_RETURN(const samples::SampleCounts counts,
                       samples::count_samples(data.length, run.batches, run.config.version));
  run.config.samples = counts.samples;
  run.train_iters = counts.train_iters;
  return Status();
}

}  // namespace

Result<DataRun> resolve_data_flags(const DataFlags& data,
                                   const std::optional<std::string>& environment_world_size) {
  Notes notes;
  samples::GptDataConfig config;
  if (data.megatron_version.has_value()) {
    MEG_ASSIGN_OR_RETURN(config.version, megatron::parse_megatron_version(*data.megatron_version));
  }
  MEG_RETURN_IF_ERROR(resolve_blends(data, config, notes));
  if (!data.sequence_length.has_value()) return usage("--seq-length is required");
  MEG_ASSIGN_OR_RETURN(const int64_t ranks, data_parallel_size(data, environment_world_size));
  MEG_ASSIGN_OR_RETURN(samples::BatchSchedule batches,
                       resolve_batches(data, ranks, config.version, notes));
  config.sequence_length = *data.sequence_length;
  config.seed = data.seed;
  config.split = data.split.value_or(std::string(kDefaultSplit));
  config.per_split_split = data.split;
  config.cache_path = data.cache_path;
  config.threads = static_cast<int>(data.dataset_builder_threads);
  config.extra_token = !data.no_extra_token;
  config.drop_last_partial_validation_sequence = !data.keep_last_validation_sequence;
  config.waiting = wait_for_cache;
  config.cancelled = interrupted;
  if (!data.mock_data) {
    // For the descriptions that name caches; mock data has none.
    MEG_ASSIGN_OR_RETURN(config.tokenizer,
                         tokenizer::identify_tokenizer(data.tokenizer, config.version));
    MEG_RETURN_IF_ERROR(check_tokenizers(data, config));
  }
  DataRun run{.config = std::move(config),
              .batches = std::move(batches),
              .dataloader_type = data.dataloader_type == "cyclic"
                                     ? samples::DataloaderType::kCyclic
                                     : samples::DataloaderType::kSingle,
              .micro_batch_size = data.micro_batch_size.value_or(1),
              .data_parallel_size = ranks,
              .notes = std::move(notes)};
  MEG_RETURN_IF_ERROR(resolve_counts(data, run));
  return run;
}

std::optional<std::string> environment_world_size() {
  const char* value = std::getenv("WORLD_SIZE");
  return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
}

}  // namespace meg::tools
