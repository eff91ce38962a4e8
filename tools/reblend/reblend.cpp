// Goes on with another blend in the middle of a training run. New; Megatron-LM has no such tool.

#include "libmeg/samples/reblend.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/dataset/indexed_dataset.h"
#include "tools/common/document_orders.h"
#include "tools/common/flag_groups/data_flags.h"
#include "tools/common/flags/flags.h"
#include "tools/common/interruption.h"
#include "tools/common/json_output.h"
#include "tools/common/report.h"
#include "tools/common/run_program.h"

namespace meg::tools {
namespace {

using nlohmann::ordered_json;

struct Arguments {
  megatron::ArgumentValues args;
  DataFlags data;
  std::vector<std::string> new_blend;
  std::vector<std::string> exclude_documents;
  std::optional<int64_t> consumed_samples;
  std::optional<int64_t> new_train_iters;
  std::optional<int64_t> new_train_samples;
  std::optional<std::string> output;
  bool dry_run = false;
  bool no_repeats = false;
  bool json = false;
};

std::optional<int> parse(int argc, const char* const* argv, Arguments& arguments) {
  Flags flags("reblend",
              "continues with another blend in the middle of a training run: no sample twice, none "
              "lost.");
  flags.usage("--new-blend WEIGHT PREFIX ... --consumed-samples N FLAGS-OF-THE-RUN");
  flags.examples(
      {"reblend --new-blend 0.2 web_text_document 0.8 books_text_document --consumed-samples 25600 "
       "--new-data-cache-path cache2 --data-path 0.5 web_text_document 0.5 books_text_document "
       "--split 969,30,1 --seq-length 1024 --global-batch-size 256 --train-iters 1000 "
       "--data-cache-path cache --vocab-file gpt2-vocab.json --merge-file gpt2-merges.txt",
       "reblend --dry-run --new-blend 1 web_text_document 2 code_text_document --consumed-samples "
       "25600 --data-path web_text_document --seq-length 1024 --global-batch-size 256 "
       "--train-iters "
       "1000 --vocab-file gpt2-vocab.json --merge-file gpt2-merges.txt"});
  flags.group("The continued run");
  flags.list("--new-blend", &arguments.new_blend, "WEIGHT PREFIX",
             "the blend from the next sample on, as --data-path has it");
  flags.list(
      "--exclude-documents", &arguments.exclude_documents, "PREFIX=LIST",
      "documents of a dataset that are not read any more, such as web_text_document=5,10:20");
  flags
      .value("--consumed-samples", &arguments.consumed_samples, "N",
             "samples that the run has trained on: consumed_train_samples of its checkpoint")
      .range(0, INT64_MAX);
  flags
      .value("--new-train-iters", &arguments.new_train_iters, "N",
             "iterations of the whole run from now on (default: --train-iters)")
      .range(1, INT64_MAX);
  flags
      .value("--new-train-samples", &arguments.new_train_samples, "N",
             "samples of the whole run from now on (default: --train-samples)")
      .range(1, INT64_MAX);
  flags.toggle("--no-repeats", &arguments.no_repeats,
               "fail where a dataset has too few samples that the run has not seen");
  flags.group("Output");
  flags.value("--new-data-cache-path", &arguments.output, "DIR",
              "new folder for the index caches of the continued run");
  flags.toggle("--dry-run", &arguments.dry_run,
               "only print what each dataset has given and has left");
  flags.toggle("--json", &arguments.json, "print one JSON object");
  declare_data_flags(flags, arguments.data, arguments.args);
  if (const std::optional<int> code = flags.parse(argc, argv)) return code;
  Status status = finish_data_flags(arguments.args, arguments.data);
  const auto usage = [&](std::string message) {
    if (status.ok()) status = Status(StatusCode::kInvalidArgument, std::move(message));
  };
  if (!arguments.consumed_samples) usage("--consumed-samples is required");
  if (arguments.new_blend.empty() && arguments.exclude_documents.empty()) {
    usage("--new-blend or --exclude-documents is required");
  }
  if (arguments.dry_run == arguments.output.has_value()) {
    usage("expected one of --dry-run and --new-data-cache-path");
  }
  if (status.ok()) return std::nullopt;
  return fail_usage(status);
}

Status exclude(const std::vector<std::string>& words, samples::NewMixture& mixture) {
  for (const std::string& word : words) {
    const size_t equals = word.rfind('=');
    if (equals == word.npos) {
      return make_error(StatusCode::kInvalidArgument,
                        "--exclude-documents: expected PREFIX=LIST, found {}", word);
    }
    const std::string prefix = dataset::dataset_prefix(word.substr(0, equals));
    MEG_ASSIGN_OR_RETURN(const auto set, dataset::IndexedDataset::open(prefix));
    const auto found = parse_documents(word.substr(equals + 1), set.document_count());
    if (!found.has_value()) return found.error().with_prefix("--exclude-documents: " + prefix);
    if (!mixture.excluded.try_emplace(prefix, *found).second) {
      return make_error(StatusCode::kInvalidArgument,
                        "--exclude-documents: expected each dataset once, found {} again", prefix);
    }
  }
  return {};
}

Result<samples::NewMixture> mixture_of(const Arguments& arguments, const samples::DataRun& run) {
  samples::NewMixture mixture;
  mixture.allow_repeats = !arguments.no_repeats;
  if (!arguments.new_blend.empty()) {
    auto blend = samples::parse_blend(arguments.new_blend, run.config.version);
    if (!blend.has_value()) return blend.error().with_prefix("--new-blend");
    mixture.blend = *std::move(blend);
  }
  if (arguments.new_train_iters || arguments.new_train_samples) {
    DataFlags data = arguments.data;
    data.samples.reset();
    data.length.train_iters = arguments.new_train_iters;
    data.length.train_samples = arguments.new_train_samples;
    MEG_ASSIGN_OR_RETURN(const samples::DataRun longer,
                         samples::resolve_data(data, environment_world_size()));
    mixture.samples = longer.config.samples;
  }
  MEG_RETURN_IF_ERROR(exclude(arguments.exclude_documents, mixture));
  mixture.cache_path = arguments.output;
  return mixture;
}

/// The flags that differ from those of the run until now.
std::vector<std::string> new_flags(const samples::Reblended& reblended, bool own_splits) {
  std::vector<std::string> words = {own_splits ? "--train-data-path" : "--data-path"};
  const auto& config = reblended.config;
  const samples::Blend& blend =
      own_splits ? *config.per_split[samples::split_number(samples::Split::kTrain)] : *config.blend;
  for (size_t i = 0; i < blend.prefixes.size(); ++i) {
    if (blend.weights) words.push_back(fmt::format("{}", (*blend.weights)[i]));
    words.push_back(blend.prefixes[i]);
  }
  if (config.cache_path) words.insert(words.end(), {"--data-cache-path", *config.cache_path});
  return words;
}

/// The samples after which the first dataset repeats, if the mixture went on for ever; nullopt:
/// none can be named.
std::optional<double> samples_until_repeat(const samples::Reblended& reblended) {
  std::optional<double> least;
  for (const samples::ReblendedDataset& each : reblended.datasets) {
    if (each.new_weight == 0) continue;
    const double lasts = static_cast<double>(std::max<int64_t>(each.left, 0)) / each.new_weight;
    least = std::min(least.value_or(lasts), lasts);
  }
  return least;
}

ordered_json json_of(const samples::Reblended& reblended, const samples::DataRun& run,
                     int64_t consumed) {
  const int64_t length = run.config.sequence_length;
  ordered_json object = json_object();
  object["consumed_samples"] = consumed;
  object["samples"] = reblended.samples;
  object["iteration"] = run.batches.step_of(consumed) - 1;
  object["sequence_length"] = length;
  object["datasets"] = ordered_json::array();
  for (const samples::ReblendedDataset& each : reblended.datasets) {
    ordered_json entry;
    entry["prefix"] = each.prefix;
    entry["new"] = each.is_new;
    entry["old_weight"] = each.old_weight;
    entry["new_weight"] = each.new_weight;
    entry["given"] = each.given;
    entry["given_tokens"] = each.given * length;
    entry["left"] = each.left < 0 ? ordered_json() : ordered_json(each.left);
    entry["left_tokens"] = each.left < 0 ? ordered_json() : ordered_json(each.left * length);
    entry["to_come"] = each.to_come;
    entry["epoch_tokens"] = each.epoch_tokens;
    entry["repeats_at"] = each.repeats_at ? ordered_json(*each.repeats_at) : ordered_json();
    object["datasets"].push_back(entry);
  }
  object["flags"] = new_flags(reblended, !reblended.config.blend.has_value());
  return object;
}

double epochs_of(int64_t samples, int64_t sequence_length, int64_t epoch_tokens) {
  return static_cast<double>(samples) * static_cast<double>(sequence_length) /
         static_cast<double>(epoch_tokens);
}

void print_dataset(const samples::ReblendedDataset& each, const samples::DataRun& run) {
  const int64_t length = run.config.sequence_length;
  fmt::print("{}{}\n", each.prefix, each.is_new ? " (new)" : "");
  fmt::print("  weight: {:.6g} -> {:.6g}\n", each.old_weight, each.new_weight);
  fmt::print("  given: {} samples, {} tokens, {:.3f} epochs\n", each.given, each.given * length,
             epochs_of(each.given, length, each.epoch_tokens));
  if (each.left < 0) {
    fmt::print("  left: its {} epochs are shuffled together, so that it repeats at any time\n",
               each.epochs);
  } else {
    fmt::print("  left before it repeats: {} samples, {} tokens\n", each.left, each.left * length);
  }
  fmt::print("  to come: {} samples, {} tokens, to epoch {:.3f}\n", each.to_come,
             each.to_come * length,
             epochs_of(each.given + each.to_come, length, each.epoch_tokens));
  if (each.excluded_sequences > 0) {
    fmt::print("  excluded: {} sequences, {} samples become shorter, {} of them are dropped\n",
               each.excluded_sequences, each.changed_samples, each.dropped_samples);
  }
  if (each.repeats_at) {
    fmt::print("  repeats: from sample {} on, iteration {}\n", *each.repeats_at,
               run.batches.step_of(*each.repeats_at));
  }
}

void print_answer(const samples::Reblended& reblended, const samples::DataRun& run,
                  int64_t consumed) {
  const int64_t length = run.config.sequence_length;
  for (const samples::ReblendedDataset& each : reblended.datasets) print_dataset(each, run);
  const int64_t rest = reblended.samples - consumed;
  fmt::print("the run: {} samples, {} tokens to come\n", rest, rest * length);
  if (const auto lasts = samples_until_repeat(reblended)) {
    const auto samples = static_cast<int64_t>(std::min(*lasts, 9e15));
    fmt::print(
        "the new mixture lasts {} samples, {} iterations, {} tokens before a dataset repeats\n",
        samples, run.batches.step_of(consumed + samples) - run.batches.step_of(consumed),
        samples * length);
  }
  if (!reblended.config.cache_path) return;
  fmt::print("wrote {}: {} caches\n", *reblended.config.cache_path, reblended.caches.size());
  fmt::print("continue with the run's flags, but\n ");
  for (const std::string& word : new_flags(reblended, !reblended.config.blend.has_value())) {
    fmt::print(" {}", word);
  }
  fmt::print("\n");
}

int main(int argc, const char* const* argv) {
  Arguments arguments;
  if (const std::optional<int> code = parse(argc, argv, arguments)) return *code;
  const Result<samples::DataRun> run = resolve_data_flags(arguments.data, environment_world_size());
  if (!run.has_value()) return fail_by_code(run.error());
  for (const std::string& text : run->notes) note(text);
  if (run->dataloader_type != samples::DataloaderType::kSingle) {
    return fail(Status(StatusCode::kUnsupported,
                       "--dataloader-type cyclic: samples are shuffled again by the data loader"));
  }
  stop_at_signals();
  const auto mixture = mixture_of(arguments, *run);
  if (!mixture.has_value()) return fail_usage(mixture.error());
  const int64_t consumed = *arguments.consumed_samples;
  const auto reblended = samples::reblend(run->config, consumed, *mixture);
  if (!reblended.has_value()) return fail(reblended.error());
  for (const std::string& text : reblended->notes) note(text);
  if (arguments.json) {
    print_json(json_of(*reblended, *run, consumed));
  } else {
    print_answer(*reblended, *run, consumed);
  }
  return 0;
}

}  // namespace
}  // namespace meg::tools

int main(int argc, char** argv) { return meg::tools::run_program(argc, argv, meg::tools::main); }
