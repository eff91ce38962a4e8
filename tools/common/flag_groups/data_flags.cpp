#include "tools/common/flag_groups/data_flags.h"

#include <cstdlib>
#include <limits>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "libmeg/megatron/argument_table.h"
#include "libmeg/tokenizer/registry/identify_tokenizer.h"
#include "tools/common/interruption.h"
#include "tools/common/report.h"

namespace meg::tools {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

/// What can make no difference to the samples of a run. Which fields do is asked of the reader
/// itself, so that a field which it takes cannot be forgotten here.
ArgumentScope data_scope() {
  std::vector<std::string> fields =
      megatron::fields_read_by([](const megatron::FieldLookup& lookup) {
        megatron::FieldReader args(lookup);
        DataFlags data;
        read_data_args(args, data);
      });
  // It would give every argument another value, those of the data too.
  fields.emplace_back("yaml_cfg");
  // They leave fewer copies of the model, each of which sees more samples.
  for (const char* dest :
       {"tensor_parallel_num_weight_shards", "pipeline_model_parallel_split_rank",
        "encoder_tensor_model_parallel_size", "encoder_pipeline_model_parallel_size"}) {
    fields.emplace_back(dest);
  }
  constexpr std::string_view kNoTraining = "nothing is trained here";
  return {.reads = std::move(fields),
          .required = {},
          .idle = {{megatron::Effect::kModel, "samples do not depend on the model"},
                   {megatron::Effect::kSchedule, kNoTraining},
                   {megatron::Effect::kOptimizer, kNoTraining},
                   {megatron::Effect::kCheckpoint, "no checkpoint is read or written"},
                   {megatron::Effect::kParallel, "samples do not depend on it"},
                   {megatron::Effect::kLog, "no training log"}},
          .idle_fields = {}};
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

}  // namespace

void read_data_args(megatron::FieldReader& args, DataFlags& data) {
  data.take_fields(args);
  data.tokenizer.take_fields(args);
}

void declare_own_data_flags(Flags& flags, DataFlags& data) {
  flags.group("Data flags of libmeg's own");
  flags.value("--samples", &data.samples, "TRAIN,VALID,TEST",
              "numbers of samples to request; None: one epoch");
  flags.toggle("--no-extra-token", &data.no_extra_token,
               "build samples of seq-length tokens instead of seq-length + 1 "
               "(add_extra_token_to_sequence off)");
  flags.toggle("--no-drop-last-partial-validation-sequence", &data.keep_last_validation_sequence,
               "keep the last, shorter sample of the validation set");
  flags.value("--megatron-version", &data.megatron_version, "REVISION",
              "revision of Megatron-LM to follow where revisions differ, such as core_v0.9.0");
  flags
      .value("--prepare-cache-world-size", &data.world_size, "N",
             "world size of the run (default: WORLD_SIZE, else one data-parallel rank)")
      .range(1, kMax);
}

void declare_data_flags(Flags& flags, DataFlags& data, megatron::ArgumentValues& args) {
  declare_own_data_flags(flags, data);
  flags.arguments(megatron::argument_rows(megatron::ArgumentFamily::kTraining), data_scope(),
                  &args);
}

Result<tokenizer::TokenizerOptions> tokenizer_options(const DataFlags& data) {
  tokenizer::TokenizerOptions options = data.tokenizer;
  if (data.megatron_version) {
    MEG_ASSIGN_OR_RETURN(options.version, megatron::parse_megatron_version(*data.megatron_version));
  }
  return options;
}

Status finish_data_flags(const megatron::ArgumentValues& args, DataFlags& data) {
  const megatron::FieldLookup fields = args.lookup();
  megatron::FieldReader reader(fields);
  read_data_args(reader, data);
  return reader.status();
}

Result<samples::DataRun> resolve_data_flags(
    const DataFlags& data, const std::optional<std::string>& environment_world_size) {
  MEG_ASSIGN_OR_RETURN(samples::DataRun run, samples::resolve_data(data, environment_world_size));
  run.config.waiting = wait_for_cache;
  run.config.cancelled = interrupted;
  if (data.mock_data) return run;  // without caches, which alone need the tokenizer
  MEG_ASSIGN_OR_RETURN(run.config.tokenizer,
                       tokenizer::identify_tokenizer(data.tokenizer, run.config.version));
  MEG_RETURN_IF_ERROR(check_tokenizers(data, run.config));
  return run;
}

samples::GptSampleOptions sample_options(const DataFlags& data, const samples::DataRun& run,
                                         int64_t eod, std::optional<int64_t> pad) {
  return {
      .sequence_length = run.config.sequence_length,
      .extra_token = run.config.extra_token,
      .eod = eod,
      .pad = samples::pad_of_samples(pad, eod, data.allow_ambiguous_pad_tokens, run.config.version),
      .reset_position_ids = data.reset_position_ids || data.sft,
      .reset_attention_mask = (data.reset_attention_mask && data.create_attention_mask) || data.sft,
      .eod_mask_loss = data.eod_mask_loss};
}

std::optional<std::string> environment_world_size() {
  const char* value = std::getenv("WORLD_SIZE");
  return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
}

}  // namespace meg::tools
