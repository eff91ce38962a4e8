#include "tools/pretrain_gpt/pretrain_gpt_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "libmeg/app/checkpoint_args.h"
#include "libmeg/checkpoint/dialects/huggingface/tokenizer_files.h"
#include "libmeg/libtorch/device.h"
#include "libmeg/megatron/argument_table.h"
#include "libmeg/model/gpt_config.h"
#include "libmeg/model/hybrid_pattern.h"
#include "libmeg/model/virtual_stages.h"
#include "libmeg/parallel/check_same.h"
#include "libmeg/samples/data_run.h"
#include "tools/common/checkpoint_tokenizer.h"
#include "tools/common/flag_groups/device_flag.h"
#include "tools/common/report.h"
#include "tools/common/run_of_checkpoint.h"
#include "tools/pretrain_gpt/pretrain_gpt_args.h"

namespace meg::tools {
namespace {

/// What makes no difference here.
std::map<std::string_view, std::string_view> idle_fields() {
  return {{"exit_signal_handler", "the program always does this, at SIGINT too"}};
}

bool draws_weights_of_each_copy(megatron::FieldReader& args) {
  return args.flag("data_parallel_random_init", false);
}

bool uses_legacy_models(megatron::FieldReader& args) {
  return args.flag("use_legacy_models", false);
}

bool uses_checkpoint_args(megatron::FieldReader& args) {
  return args.flag("use_checkpoint_args", false);
}

/// Every field of args that a run reads.
std::vector<std::string> pretrain_fields() {
  return megatron::fields_read_by([](const megatron::FieldLookup& args) {
    (void)model::GptConfig::from_fields(args);
    (void)nn::GptOptions::from_fields(args);
    megatron::FieldReader reader(args);
    DataFlags data;
    read_data_args(reader, data);
    train::TrainerOptions run;
    run.take_fields(reader);
    RankFlags().take_fields(reader);
    model::VirtualStages().take_fields(reader);
    model::PipelineSplit().take_fields(reader);
    model::HybridArgs().take_fields(reader);
    (void)draws_weights_of_each_copy(reader);
    ExpertRankFlags().take_fields(reader);
    (void)uses_legacy_models(reader);
    (void)uses_checkpoint_args(reader);
    (void)takes_checkpoint_tokenizer(reader);
  });
}

/// A first run may load where it saves: then flags alone say what the model is, as in Megatron,
/// as the trainer's warning says. Where they do not, --load is more likely to be wrong.
bool is_first_run(const megatron::ArgumentValues& args, const Status& taken) {
  if (taken.code() != StatusCode::kNotFound || args.given("ckpt_step") ||
      args.given("exit_on_missing_checkpoint")) {
    return false;
  }
  for (const char* dest : {"num_layers", "hidden_size", "num_attention_heads"}) {
    if (!args.given(dest)) return false;
  }
  const std::optional<megatron::FieldValue> load = args.field("load");
  return train::lacks_checkpoint(std::get<std::string>(*load));
}

bool args_lack_save_interval(const megatron::ArgumentValues& args) {
  return args.has_any({"save"}) && !args.has_any({"save_interval"});
}

/// What every run needs, in alternatives and unless a checkpoint gives it.
std::vector<std::string> missing_flags(const PretrainFlags& run) {
  std::vector<std::string> missing;
  if (run.may_be_of_checkpoint && !describes_model(run.args)) return missing;
  const auto need = [&](std::string_view names, std::initializer_list<std::string_view> dests) {
    if (!run.args.has_any(dests)) missing.emplace_back(names);
  };
  if (!run.args.has_any({"use_checkpoint_args"})) {
    need("--num-layers or --hybrid-layer-pattern",
         {"num_layers", "hybrid_layer_pattern", "hybrid_override_pattern"});
    need("--hidden-size", {"hidden_size"});
    need("--num-attention-heads", {"num_attention_heads"});
    need("--seq-length", {"seq_length"});
  }
  if (!run.data.samples.has_value()) {
    need("--micro-batch-size or --global-batch-size", {"micro_batch_size", "global_batch_size"});
  }
  need("--train-iters or --train-samples", {"train_iters", "train_samples"});
  if (run.may_be_of_checkpoint) need("--lr", {"lr"});
  need("--data-path or --mock-data",
       {"data_path", "train_data_path", "valid_data_path", "test_data_path", "data_args_path",
        "per_split_data_args_path", "mock_data"});
  // With a checkpoint the error of opening the tokenizer says more: what its args name.
  if (!run.args.given("tokenizer_type") && !run.args.has_any({"load"})) {
    need("--vocab-file and --merge-file or another --tokenizer-type", {"vocab_file"});
  }
  return missing;
}

void set_batches(const PretrainFlags& run, const samples::DataRun& data,
                 const Vocabulary& vocabulary, train::BatchOptions& batches) {
  batches.sample = sample_options(run.data, data, vocabulary.eod, vocabulary.pad);
  batches.dataloader_type = data.dataloader_type;
  batches.micro_batch_size = data.micro_batch_size;
  batches.eval_micro_batch_size = run.data.length.eval_micro_batch_size;
}

/// Where ends of documents are padding, too, revisions differ in what is trained on.
std::optional<std::string> note_of_pad(const Vocabulary& vocabulary, int64_t pad,
                                       const megatron::MegatronVersion& version) {
  const bool masks = version.dataset_pad != megatron::DatasetPad::kNone;
  if (!masks || vocabulary.pad != vocabulary.eod) return std::nullopt;
  if (pad != vocabulary.pad) {
    return fmt::format(
        "token {} is padding and the end of a document: it is trained on, as in {} of Megatron-LM "
        "without --allow-ambiguous-pad-tokens",
        vocabulary.eod, version.name);
  }
  return fmt::format(
      "token {} is padding and the end of a document: labels that are it have no loss, and it is "
      "read as token 0, as in {} of Megatron-LM",
      vocabulary.eod, version.name);
}

/// --iterations-to-skip as the trainer counts them, from 0.
void count_from_zero(const PretrainFlags& run, const megatron::MegatronVersion& version,
                     std::vector<int64_t>& iterations, std::vector<std::string>& notes) {
  if (iterations.empty()) return;
  // Applied only where the user names such a revision: by default the flag is what it was.
  if (!run.data.megatron_version.has_value() || !version.skipped_iterations_from_one) {
    if (run.data.megatron_version.has_value()) return;
    notes.emplace_back(
        "--iterations-to-skip counts from 0, as up to core 0.16 of Megatron-LM; with "
        "--megatron-version core_v0.17.0 or newer it counts from 1");
    return;
  }
  if (std::erase(iterations, 0) > 0) {
    notes.push_back(
        fmt::format("--iterations-to-skip 0: {} of Megatron-LM counts from 1", version.name));
  }
  for (int64_t& iteration : iterations) --iteration;
}

bool has_legacy_names(const PretrainFlags& run) {
  const megatron::FieldLookup fields = run.args.lookup();
  megatron::FieldReader args(fields);
  return run.names == "legacy" || uses_legacy_models(args);
}

/// HybridModel's names, unless --target-names asks for GPT's.
bool has_hybrid_names(const PretrainFlags& run) {
  return run.names.has_value() ? run.names == "hybrid" : run.is_hybrid;
}

/// Says which flags Megatron reads only beside another one that is missing.
void tell_useless_flags(const megatron::ArgumentValues& args) {
  for (const auto& [flag, dest, needed_flag, needed_dest] :
       {std::array{"--num-query-groups", "num_query_groups", "--group-query-attention",
                   "group_query_attention"},
        {"--rope-scaling-factor", "rope_scaling_factor", "--use-rope-scaling",
         "use_rope_scaling"}}) {
    if (!args.given(dest) || args.has_any({needed_dest}) || !is_first_rank()) continue;
    note(fmt::format("{} has no effect without {}, as in Megatron-LM", flag, needed_flag));
  }
}

/// Gives what the named revision's core models do not use its default, so that the run computes,
/// and saves, what the revision does. Without a revision every flag means what it says.
Status drop_unused_args(PretrainFlags& run) {
  if (!run.data.megatron_version.has_value() || has_legacy_names(run)) return {};
  MEG_ASSIGN_OR_RETURN(const megatron::MegatronVersion version,
                       megatron::parse_megatron_version(*run.data.megatron_version));
  for (const megatron::ArgumentRow& row :
       megatron::argument_rows(megatron::ArgumentFamily::kTraining)) {
    if (!megatron::is_unused_by(row, version)) continue;
    const std::optional<megatron::FieldValue> value = run.args.field(row.dest);
    const megatron::FieldValue without = *megatron::parse_python_value(row.default_value);
    run.unused_fields.emplace_back(row.dest);
    if (!value.has_value() || megatron::same_field(*value, without)) continue;
    if (is_first_rank()) {
      note(fmt::format("{} has no effect in {} of Megatron-LM", row.flag, version.name));
    }
    run.args.set(row.dest, without);
  }
  return {};
}

/// What --save keeps beside the weights.
Result<std::vector<checkpoint::TokenizerFile>> files_of_tokenizer(
    const tokenizer::TokenizerOptions& options) {
  std::vector<std::string> paths = {options.vocab_file, options.merge_file,
                                    options.tokenizer_model};
  // Llama2Tokenizer and others take one file by two flags.
  std::sort(paths.begin(), paths.end());
  paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
  std::erase(paths, "");
  return checkpoint::files_of_tokenizer(paths);
}

Result<model::NameFamily> names_of(const PretrainFlags& run, const model::GptConfig& config) {
  const model::NameFamily mcore = model::mcore_family(config.transformer_impl);
  if (has_legacy_names(run) && has_hybrid_names(run)) {
    return Status(StatusCode::kInvalidArgument,
                  "--use-legacy-models: cannot be combined with --hybrid-layer-pattern and "
                  "--target-names hybrid");
  }
  if (has_hybrid_names(run)) return model::NameFamily::kHybrid;
  if (!has_legacy_names(run)) return mcore;
  if (mcore == model::NameFamily::kMcoreLocal) return model::NameFamily::kLegacy;
  // 6ef5bdc has legacy models of Transformer Engine's layers, whose names are a family of their
  // own.
  return make_error(StatusCode::kInvalidArgument,
                    "--target-names legacy: expected --transformer-impl local, found {}",
                    config.transformer_impl);
}

Result<model::GptConfig> config_of(const megatron::ArgumentValues& args,
                                   const Vocabulary& vocabulary) {
  MEG_ASSIGN_OR_RETURN(model::GptConfig config, model::GptConfig::from_fields(args.lookup()));
  config.padded_vocab_size = vocabulary.padded_vocab_size;
  return config;
}

}  // namespace

void declare_pretrain_flags(Flags& flags, PretrainFlags& run) {
  flags.notes(is_first_rank());
  flags.group("Flags of libmeg's own");
  declare_device_flag(flags, run.device);
  flags
      .value(
          "--target-names", &run.names, "NAMES",
          "parameter names in saved checkpoints (default: hybrid with --hybrid-layer-pattern, else "
          "mcore)")
      .choices({"mcore", "hybrid", "legacy"});
  flags.value("--trace-schedule", &run.trace_schedule, "FILE",
              "write a trace of the last step on all ranks, for Chrome and Perfetto");
  flags.toggle("--print-arguments", &run.print_arguments,
               "print all arguments of the run at its start, as Megatron does");
  declare_own_data_flags(flags, run.data);
  flags.also_requires([&run] { return missing_flags(run); });
  flags.arguments(megatron::argument_rows(megatron::ArgumentFamily::kTraining),
                  {.reads = pretrain_fields(),
                   .required = run.may_be_of_checkpoint ? std::vector<std::string_view>()
                                                        : std::vector<std::string_view>{"lr"},
                   .idle = {},
                   .idle_fields = idle_fields()},
                  &run.args);
}

Status finish_pretrain_flags(const Flags& flags, PretrainFlags& run) {
  if (run.may_be_of_checkpoint && !describes_model(run.args)) {
    MEG_RETURN_IF_ERROR(take_run_of_checkpoint(pretrain_fields(), run.args));
  }
  MEG_RETURN_IF_ERROR(check_precision(run.args));
  const megatron::FieldLookup fields = run.args.lookup();
  megatron::FieldReader args(fields);
  MEG_ASSIGN_OR_RETURN(const auto pattern, model::take_hybrid_pattern(run.args));
  if (pattern.has_value()) {
    MEG_RETURN_IF_ERROR(model::take_hybrid_segments(*pattern, run.args));
  }
  run.is_hybrid = pattern.has_value();
  std::shared_ptr<const checkpoint::MegatronCheckpoint> opened;
  if (uses_checkpoint_args(args)) {
    auto taken = app::take_checkpoint_args(run.args);
    if (!taken.has_value() && !is_first_run(run.args, taken.error())) return taken.error();
    if (taken.has_value()) {
      run.is_hybrid |= taken->family() == model::NameFamily::kHybrid;
      opened = std::make_shared<const checkpoint::MegatronCheckpoint>(*std::move(taken));
    }
  }
  MEG_ASSIGN_OR_RETURN(run.tokenizer_origin, take_checkpoint_tokenizer(run.args, opened));
  tell_useless_flags(run.args);
  MEG_RETURN_IF_ERROR(drop_unused_args(run));
  read_data_args(args, run.data);
  // Megatron's programs that only build index caches take 0; what seeds generators refuses it.
  if (run.data.seed == 0) {
    return Status(StatusCode::kInvalidArgument, "--seed: expected 1 to 4294967295, found 0");
  }
  // Only now: what a checkpoint says of the model is compared as well.
  run.settings = flags.settings();
  return args.status();
}

Result<ExpertRankFlags> expert_ranks_of(const PretrainFlags& run) {
  const megatron::FieldLookup fields = run.args.lookup();
  megatron::FieldReader args(fields);
  ExpertRankFlags flags;
  flags.take_fields(args);
  const bool has_experts = args.size("num_experts").has_value();
  MEG_RETURN_IF_ERROR(args.status());
  if (has_experts) return flags;
  if (flags.expert_model_parallel_size > 1) {
    return make_error(StatusCode::kInvalidArgument,
                      "--expert-model-parallel-size {}: requires --num-experts",
                      flags.expert_model_parallel_size);
  }
  return ExpertRankFlags();
}

Status check_ranks(const PretrainFlags& run, const parallel::ParallelState& ranks) {
  // Ranks with different command lines would wait for each other in different places, or train
  // parts of different models, or on different samples, silently.
  MEG_RETURN_IF_ERROR(parallel::check_same("command line", run.settings, ranks));
  const megatron::FieldLookup fields = run.args.lookup();
  megatron::FieldReader args(fields);
  if (draws_weights_of_each_copy(args) && ranks.data()->size() > 1) {
    return make_error(StatusCode::kUnsupported,
                      "--data-parallel-random-init on {} data-parallel ranks: not supported yet",
                      ranks.data()->size());
  }
  note_backend(run.args, ranks);
  return args.status();
}

Result<train::TrainerOptions> resolve_pretrain_flags(const PretrainFlags& run,
                                                     const Vocabulary& vocabulary,
                                                     const parallel::ParallelState& ranks) {
  const int64_t world_size = ranks.mesh().world_size();
  // A run that is only prepared may have any size. Here the batches would be those of ranks that do
  // not exist.
  if (run.data.world_size.value_or(world_size) != world_size) {
    return make_error(StatusCode::kInvalidArgument,
                      "--prepare-cache-world-size: expected the {} rank{} of this run, found {}",
                      world_size, world_size == 1 ? "" : "s", *run.data.world_size);
  }
  MEG_ASSIGN_OR_RETURN(samples::DataRun data,
                       resolve_data_flags(run.data, std::to_string(world_size)));
  if (args_lack_save_interval(run.args)) {
    data.notes.emplace_back("--save without --save-interval: saved only at the end of the run");
  }
  data.config.vocab_size = vocabulary.vocab_size;
  data.config.eod = vocabulary.eod;

  train::TrainerOptions options;
  const megatron::FieldLookup fields = run.args.lookup();
  megatron::FieldReader args(fields);
  options.take_fields(args);
  count_from_zero(run, data.config.version, options.iterations_to_skip, data.notes);
  model::VirtualStages virtual_stages;
  virtual_stages.take_fields(args);
  options.pipeline_split.take_fields(args);
  MEG_RETURN_IF_ERROR(args.status());
  MEG_ASSIGN_OR_RETURN(options.config, config_of(run.args, vocabulary));
  MEG_ASSIGN_OR_RETURN(
      options.virtual_pipeline_model_parallel_size,
      virtual_stages.size(options.config.num_layers,
                          {.pipeline_model_parallel_size = ranks.pipeline()->size(),
                           .split = options.pipeline_split}));
  options.microbatch_group_size_per_vp_stage = virtual_stages.microbatch_group_size_per_vp_stage;
  MEG_ASSIGN_OR_RETURN(options.model, nn::GptOptions::from_fields(fields));
  options.model.device = ranks.device();
  MEG_ASSIGN_OR_RETURN(options.model.family, names_of(run, options.config));
  options.checkpoints.names = options.model.family;
  if (options.checkpoints.save.has_value()) {
    MEG_ASSIGN_OR_RETURN(options.checkpoints.tokenizer_files,
                         files_of_tokenizer(run.data.tokenizer));
  }
  options.checkpoints.not_compared = run.unused_fields;
  options.schedule.global_batch_size = data.batches.global_batch_size();
  options.schedule.has_rampup_batch_size = !run.data.rampup_batch_size.empty();
  set_batches(run, data, vocabulary, options.batches);
  if (auto text = note_of_pad(vocabulary, options.batches.sample.pad, data.config.version)) {
    data.notes.push_back(*std::move(text));
  }
  if (ranks.mesh().rank() == 0) {
    for (const std::string& text : data.notes) note(text);
    for (const auto& folder :
         {options.checkpoints.save, options.tensorboard_dir, data.config.cache_path}) {
      if (folder.has_value()) note_new_folders(*folder + "/");
    }
    if (run.trace_schedule.has_value()) note_new_folders(*run.trace_schedule);
  }
  options.batches.data_parallel_rank = ranks.data()->rank();
  options.batches.data_parallel_size = ranks.data()->size();
  options.batch_schedule = data.batches;
  options.length = run.data.length;
  // Megatron does this since core 0.16: a checkpoint of weights alone can be evaluated.
  options.checkpoints.no_load_optim |= options.length.skip_train;
  options.trace_schedule = run.trace_schedule;
  options.args = saved_args(run, data, options.config, vocabulary, ranks);
  if (const int64_t size = options.virtual_pipeline_model_parallel_size; size > 1) {
    options.args.set("virtual_pipeline_model_parallel_size", {size});
  }
  options.version = data.config.version;
  options.optimizer.log_num_zeros_in_grad |= options.version.always_counts_zeros;
  if (run.data.megatron_version.has_value()) {
    options.checkpoints.lines = options.version.checkpoint_lines;
  }
  options.data = std::move(data.config);
  return options;
}

}  // namespace meg::tools
