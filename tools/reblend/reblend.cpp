// Goes on with another blend in the middle of a training run. New; Megatron-LM has no such tool.

#include "libmeg/samples/reblend.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
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
#include "tools/reblend/checkpoint_run.h"
#include "tools/reblend/reblend_answer.h"

namespace meg::tools {
namespace {

struct Arguments {
  megatron::ArgumentValues args;
  DataFlags data;
  std::vector<std::string> new_blend;
  std::vector<std::string> exclude_documents;
  std::optional<std::string> load;
  std::optional<int64_t> ckpt_step;
  std::optional<int64_t> consumed_samples;
  std::optional<int64_t> iteration;
  CheckpointRun run;  ///< Where `load` is given.
  std::optional<int64_t> new_train_iters;
  std::optional<int64_t> new_train_samples;
  std::optional<std::string> output;
  bool dry_run = false;
  bool no_repeats = false;
  bool json = false;
};

/// One flag says where the run is.
Status check_place(const Arguments& arguments) {
  const int given = static_cast<int>(arguments.load.has_value()) +
                    static_cast<int>(arguments.consumed_samples.has_value()) +
                    static_cast<int>(arguments.iteration.has_value());
  if (given == 1 && (arguments.load || !arguments.ckpt_step)) return {};
  // A checkpoint without the count leaves it to a flag.
  if (given == 2 && arguments.load && arguments.consumed_samples) return {};
  return {StatusCode::kInvalidArgument,
          given == 0 ? "--load, --consumed-samples or --iteration is required"
          : given == 1
              ? "--ckpt-step needs --load"
              : "expected one of --load, --consumed-samples and --iteration, found several: "
                "--ckpt-step chooses the iteration of --load"};
}

std::optional<int> parse(int argc, const char* const* argv, Arguments& arguments) {
  Flags flags("reblend",
              "continues with another blend in the middle of a training run: no sample twice, none "
              "lost.");
  flags.usage(
      "--new-blend WEIGHT PREFIX ... --load CHECKPOINT | --consumed-samples N FLAGS-OF-THE-RUN");
  flags.examples(
      {"reblend --new-blend 0.2 web_text_document 0.8 books_text_document --load checkpoints "
       "--new-data-cache-path cache2",
       "reblend --exclude-documents web_text_document=5,10:20 --load checkpoints --ckpt-step 2000 "
       "--new-data-cache-path cache2",
       "reblend --dry-run --new-blend 1 web_text_document 2 code_text_document --iteration 100 "
       "--data-path web_text_document --seq-length 1024 --global-batch-size 256 --train-iters 1000 "
       "--vocab-file gpt2-vocab.json --merge-file gpt2-merges.txt"});
  flags.group("The continued run");
  flags.list("--new-blend", &arguments.new_blend, "WEIGHT PREFIX",
             "the blend from the next sample on, as --data-path has it");
  flags.list(
      "--exclude-documents", &arguments.exclude_documents, "PREFIX=LIST",
      "documents of a dataset that are not read any more, such as web_text_document=5,10:20");
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
  flags.group("The run until now");
  flags.value("--load", &arguments.load, "DIR",
              "checkpoint whose args have the run's flags and consumed samples");
  flags
      .value("--ckpt-step", &arguments.ckpt_step, "N",
             "iteration of the checkpoint instead of the tracker's")
      .range(0, INT64_MAX);
  flags
      .value("--consumed-samples", &arguments.consumed_samples, "N",
             "samples that the run has trained on: consumed_train_samples of its checkpoint")
      .range(0, INT64_MAX);
  flags
      .value("--iteration", &arguments.iteration, "N",
             "the same as iterations of the run's batch sizes, ramp-up and all")
      .range(0, INT64_MAX);
  flags.group("Output");
  flags.value("--new-data-cache-path", &arguments.output, "DIR",
              "new folder for the index caches of the continued run");
  flags.toggle("--dry-run", &arguments.dry_run,
               "only print what each dataset has given and has left");
  flags.toggle("--json", &arguments.json, "print one JSON object");
  declare_data_flags(flags, arguments.data, arguments.args);
  if (const std::optional<int> code = flags.parse(argc, argv)) return code;
  Status status = check_place(arguments);
  if (!status.ok()) return fail_usage(status);
  if (arguments.load) {
    auto run = take_run_of_checkpoint(*arguments.load, arguments.ckpt_step, arguments.args);
    if (!run.has_value()) return fail_by_code(run.error());
    arguments.run = *std::move(run);
  }
  status = finish_data_flags(arguments.args, arguments.data);
  const auto usage = [&](std::string message) {
    if (status.ok()) status = Status(StatusCode::kInvalidArgument, std::move(message));
  };
  if (arguments.new_blend.empty() && arguments.exclude_documents.empty()) {
    usage("--new-blend or --exclude-documents is required");
  }
  if (arguments.dry_run == arguments.output.has_value()) {
    usage("expected one of --dry-run and --new-data-cache-path");
  }
  if (status.ok()) return std::nullopt;
  return fail_usage(status);
}

/// The samples that the run has consumed.
Result<int64_t> consumed_samples(const Arguments& arguments, const samples::DataRun& run) {
  if (arguments.iteration) return run.batches.consumed_before(*arguments.iteration + 1);
  if (!arguments.load) return *arguments.consumed_samples;
  const CheckpointRun& loaded = arguments.run;
  const std::optional<int64_t> given = arguments.consumed_samples;
  if (!loaded.consumed_samples && !given) {
    return make_error(StatusCode::kNotFound,
                      "{}: expected consumed_train_samples in its args, found none: "
                      "--consumed-samples says it",
                      loaded.folder);
  }
  if (loaded.consumed_samples && given && *given != *loaded.consumed_samples) {
    return make_error(StatusCode::kInvalidArgument,
                      "--consumed-samples: expected {} as in the args of {}, found {}",
                      *loaded.consumed_samples, loaded.folder, *given);
  }
  const int64_t consumed = loaded.consumed_samples ? *loaded.consumed_samples : *given;
  if (loaded.iteration && run.batches.consumed_before(*loaded.iteration + 1) != consumed) {
    note(fmt::format("{}: {} samples at iteration {}, not {}: the run has had other batch sizes",
                     loaded.folder, consumed, *loaded.iteration,
                     run.batches.consumed_before(*loaded.iteration + 1)));
  }
  return consumed;
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

void add_blend(const char* flag, const samples::Blend& blend, std::vector<std::string>& words) {
  words.emplace_back(flag);
  for (size_t i = 0; i < blend.prefixes.size(); ++i) {
    if (blend.weights) words.push_back(fmt::format("{}", (*blend.weights)[i]));
    words.push_back(blend.prefixes[i]);
  }
}

/// The flags that differ from those of the run until now.
std::vector<std::string> new_flags(const Arguments& arguments,
                                   const samples::Reblended& reblended) {
  std::vector<std::string> words;
  const auto& config = reblended.config;
  if (config.blend) {
    add_blend("--data-path", *config.blend, words);
  } else {
    const auto& [train, valid, test] = config.per_split;
    add_blend("--train-data-path", *train, words);
    // One file has named all three.
    const bool all = arguments.data.per_split_data_args_path.has_value();
    if (all && valid) add_blend("--valid-data-path", *valid, words);
    if (all && test) add_blend("--test-data-path", *test, words);
  }
  if (config.cache_path) words.insert(words.end(), {"--data-cache-path", *config.cache_path});
  const auto add_length = [&](const char* flag, std::optional<int64_t> length) {
    if (length) words.insert(words.end(), {flag, std::to_string(*length)});
  };
  add_length("--train-iters", arguments.new_train_iters);
  add_length("--train-samples", arguments.new_train_samples);
  return words;
}

/// The run's flags that the new ones replace.
std::vector<std::string> dropped_flags(const DataFlags& data) {
  std::vector<std::string> dropped;
  if (data.data_args_path) dropped.emplace_back("--data-args-path");
  if (data.per_split_data_args_path) dropped.emplace_back("--per-split-data-args-path");
  return dropped;
}

int main(int argc, const char* const* argv) {
  Arguments arguments;
  if (const std::optional<int> code = parse(argc, argv, arguments)) return *code;
  for (const std::string& text : arguments.run.notes) note(text);
  const Result<samples::DataRun> run = resolve_data_flags(arguments.data, environment_world_size());
  if (!run.has_value()) return fail_by_code(run.error());
  for (const std::string& text : run->notes) note(text);
  if (run->dataloader_type != samples::DataloaderType::kSingle) {
    return fail(Status(StatusCode::kUnsupported,
                       "--dataloader-type cyclic: samples are shuffled again by the data loader"));
  }
  stop_at_signals();
  const auto consumed = consumed_samples(arguments, *run);
  if (!consumed.has_value()) return fail_by_code(consumed.error());
  const auto mixture = mixture_of(arguments, *run);
  if (!mixture.has_value()) return fail_usage(mixture.error());
  const auto reblended = samples::reblend(run->config, *consumed, *mixture);
  if (!reblended.has_value()) return fail(reblended.error());
  for (const std::string& text : reblended->notes) note(text);
  const ReblendAnswer answer{.reblended = *reblended,
                             .run = *run,
                             .consumed = *consumed,
                             .flags = new_flags(arguments, *reblended),
                             .dropped = dropped_flags(arguments.data)};
  if (arguments.json) {
    print_json(json_of(answer));
  } else {
    print_answer(answer);
  }
  return 0;
}

}  // namespace
}  // namespace meg::tools

int main(int argc, char** argv) { return meg::tools::run_program(argc, argv, meg::tools::main); }
