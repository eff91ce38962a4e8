// Builds the index caches of a run before it starts. Stands for Megatron-LM tools/prepare_cache.py.

#include <fmt/format.h>

#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "libmeg/logging/log_lines.h"
#include "libmeg/samples/gpt_datasets.h"
#include "tools/common/byte_size.h"
#include "tools/common/flag_groups/data_flags.h"
#include "tools/common/flags/flags.h"
#include "tools/common/interruption.h"
#include "tools/common/json_output.h"
#include "tools/common/progress_bar.h"
#include "tools/common/report.h"
#include "tools/common/run_program.h"

namespace meg::tools {
namespace {

using nlohmann::ordered_json;

struct Arguments {
  megatron::ArgumentValues args;
  DataFlags data;
  bool json = false;
};

std::optional<int> parse(int argc, const char* const* argv, Arguments& arguments) {
  Flags flags("prepare_cache",
              "builds the index caches of a training run from its flags, so that no GPU waits for "
              "them.");
  flags.usage("--data-path PREFIX... --seq-length N --train-iters N --micro-batch-size N");
  flags.examples(
      {"prepare_cache --data-path corpus_text_document --split 949,50,1 --seq-length 1024 "
       "--micro-batch-size 4 --global-batch-size 16 --train-iters 1000 --data-cache-path cache "
       "--vocab-file gpt2-vocab.json --merge-file gpt2-merges.txt",
       "prepare_cache --data-path 0.3 web_text_document 0.7 books_text_document --split 1,0,0 "
       "--seq-length 4096 --samples 100000,None,None --data-cache-path cache --vocab-file "
       "gpt2-vocab.json --merge-file gpt2-merges.txt"});
  flags.group("Output");
  flags.toggle("--json", &arguments.json, "print one JSON object");
  declare_data_flags(flags, arguments.data, arguments.args);
  if (const std::optional<int> code = flags.parse(argc, argv)) return code;
  const Status status = finish_data_flags(arguments.args, arguments.data);
  if (status.ok()) return std::nullopt;
  return fail_usage(status);
}

std::string_view outcome_name(samples::CacheOutcome outcome) {
  switch (outcome) {
    case samples::CacheOutcome::kFound:
      return "found";
    case samples::CacheOutcome::kBuilt:
      return "built";
    case samples::CacheOutcome::kRebuilt:
      return "rebuilt";
  }
  return "";
}

void print_target_sizes(const samples::PerSplit<std::optional<int64_t>>& samples) {
  fmt::print("> building train, validation, and test datasets ...\n");
  for (const std::string& line :
       logging::target_sizes_lines(samples[samples::split_number(samples::Split::kTrain)],
                                   samples[samples::split_number(samples::Split::kValid)],
                                   samples[samples::split_number(samples::Split::kTest)])) {
    fmt::print("{}\n", line);
  }
  fmt::print("> building train, validation, and test datasets for GPT ...\n");
  std::fflush(stdout);
}

/// The index of a blend has no files without --data-cache-path.
std::string outcome_text(const samples::IndexCacheReport& cache) {
  const bool in_memory = cache.prefix.empty() && cache.description.empty();
  return fmt::format("{}{}", outcome_name(cache.outcome), in_memory ? " in memory" : "");
}

void print_cache(const samples::IndexCacheReport& cache) {
  const std::string what = cache.prefix.empty() ? "blend" : cache.prefix;
  const std::string epochs = cache.prefix.empty() ? ""
                                                  : fmt::format(", {} epoch{}", cache.epochs,
                                                                cache.epochs == 1 ? "" : "s");
  fmt::print(" > {}: {}: {}, {} samples{}, {:.3f} s\n", samples::split_name(cache.split), what,
             outcome_text(cache), cache.samples, epochs, cache.seconds);
  if (!cache.reason.empty()) fmt::print("   because {}\n", cache.reason);
  if (!cache.description.empty()) fmt::print("   {}\n", cache.description);
  if (cache.outcome == samples::CacheOutcome::kFound || cache.files.empty()) return;
  fmt::print("   {}\n", written_text(fmt::format("{} files", cache.files.size()), cache.files));
}

ordered_json json_of(const samples::IndexCacheReport& cache) {
  ordered_json object;
  object["split"] = samples::split_name(cache.split);
  object["prefix"] = cache.prefix.empty() ? ordered_json() : ordered_json(cache.prefix);
  object["outcome"] = outcome_name(cache.outcome);
  object["reason"] = cache.reason.empty() ? ordered_json() : ordered_json(cache.reason);
  object["description"] =
      cache.description.empty() ? ordered_json() : ordered_json(cache.description);
  object["samples"] = cache.samples;
  object["epochs"] = cache.epochs;
  object["seconds"] = cache.seconds;
  return object;
}

ordered_json json_of(const samples::DataRun& run, const samples::GptDatasets& datasets) {
  ordered_json object = json_object();
  object["megatron_version"] = run.config.version.name;
  object["sequence_length"] = run.config.sequence_length;
  object["seed"] = run.config.seed;
  object["train_iters"] = run.train_iters;
  object["global_batch_size"] = run.batches.global_batch_size();
  object["data_parallel_size"] = run.data_parallel_size;
  for (const samples::Split split : samples::kSplits) {
    const std::optional<int64_t> target = run.config.samples[samples::split_number(split)];
    const auto& dataset = datasets.splits[samples::split_number(split)];
    ordered_json& entry = object["splits"][std::string(samples::split_name(split))];
    entry["target"] = target.has_value() ? ordered_json(*target) : ordered_json();
    entry["samples"] = dataset != nullptr ? ordered_json(dataset->size()) : ordered_json();
  }
  object["caches"] = ordered_json::array();
  for (const samples::IndexCacheReport& cache : datasets.caches)
    object["caches"].push_back(json_of(cache));
  return object;
}

void print_answer(const samples::DataRun& run, const samples::GptDatasets& datasets, bool json) {
  for (const std::string& text : datasets.notes) note(text);
  if (json) {
    print_json(json_of(run, datasets));
    return;
  }
  for (const samples::IndexCacheReport& cache : datasets.caches) print_cache(cache);
  fmt::print("> finished creating GPT datasets ...\n");
}

/// A bar for each split.
class CacheProgress {
 public:
  void operator()(samples::Split split, int64_t done, int64_t datasets) {
    if (split_ != split) bar_.emplace(/*log_interval=*/0);
    split_ = split;
    bar_->update({.documents = done, .total_documents = datasets, .counted = "datasets"});
  }

 private:
  std::optional<samples::Split> split_;
  std::optional<ProgressBar> bar_;
};

Result<samples::GptDatasets> build_with_progress(samples::GptDataConfig config) {
  CacheProgress progress;
  config.cache_progress = std::ref(progress);
  if (std::exchange(config.defer_npy_index_mmap, false)) {
    note("--dataloader-defer-npy-index-mmap: every cache is opened and checked here");
  }
  return samples::build_gpt_datasets(config);
}

int main(int argc, const char* const* argv) {
  Arguments arguments;
  if (const std::optional<int> code = parse(argc, argv, arguments)) return *code;
  const Result<samples::DataRun> run = resolve_data_flags(arguments.data, environment_world_size());
  if (!run.has_value()) return fail_by_code(run.error());
  for (const std::string& text : run->notes) note(text);
  if (run->config.cache_path.has_value()) note_new_folders(*run->config.cache_path + "/");
  if (!arguments.json) print_target_sizes(run->config.samples);
  // Each dataset's cache appears by rename, so an interrupted program leaves whole caches, which
  // the next one finds.
  stop_at_signals();
  samples::GptDatasets datasets;
  if (arguments.data.mock_data) {
    note("mock data has no index caches: nothing to build");
  } else {
    Result<samples::GptDatasets> built = build_with_progress(run->config);
    if (!built.has_value()) return fail(built.error());
    datasets = std::move(*built);
  }
  print_answer(*run, datasets, arguments.json);
  return 0;
}

}  // namespace
}  // namespace meg::tools

int main(int argc, char** argv) { return meg::tools::run_program(argc, argv, meg::tools::main); }
