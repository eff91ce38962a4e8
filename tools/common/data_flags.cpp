#include "tools/common/data_flags.h"

#include <limits>
#include <utility>

#include "libmeg/megatron/argument_table.h"

namespace meg::tools {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

void read_datasets(megatron::FieldReader& args, DataFlags& data) {
  auto& [train, valid, test] = data.per_split_path;
  args.take("data_path", data.data_path);
  args.take("train_data_path", train);
  args.take("valid_data_path", valid);
  args.take("test_data_path", test);
  args.take("data_args_path", data.data_args_path);
  args.take("per_split_data_args_path", data.per_split_data_args_path);
  args.take("mock_data", data.mock_data);
  args.take("split", data.split);
  args.take("seq_length", data.sequence_length);
  args.take("seed", data.seed);
  args.take("data_cache_path", data.cache_path);
  args.take("num_dataset_builder_threads", data.dataset_builder_threads);
}

void read_length(megatron::FieldReader& args, samples::RunLength& length) {
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

void read_batches(megatron::FieldReader& args, DataFlags& data) {
  args.take("micro_batch_size", data.micro_batch_size);
  args.take("global_batch_size", data.global_batch_size);
  args.take("rampup_batch_size", data.rampup_batch_size);
  args.take("tensor_model_parallel_size", data.tensor_model_parallel_size);
  args.take("pipeline_model_parallel_size", data.pipeline_model_parallel_size);
  args.take("context_parallel_size", data.context_parallel_size);
  args.take("dataloader_type", data.dataloader_type);
  args.take("reset_position_ids", data.reset_position_ids);
  args.take("reset_attention_mask", data.reset_attention_mask);
  args.take("eod_mask_loss", data.eod_mask_loss);
  args.take("create_attention_mask_in_dataloader", data.create_attention_mask);
}

/// What can make no difference to the samples of a run. Which fields do is asked of the reader
/// itself, so that a field which it takes cannot be forgotten here.
ArgumentScope data_scope() {
  std::vector<std::string> fields =
      megatron::fields_read_by([](const megatron::FieldLookup& lookup) {
        megatron::FieldReader args(lookup);
        DataFlags data;
        read_data_args(args, data);
      });
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

}  // namespace

void read_data_args(megatron::FieldReader& args, DataFlags& data) {
  read_datasets(args, data);
  data.tokenizer.take_fields(args);
  read_length(args, data.length);
  read_batches(args, data);
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

}  // namespace meg::tools
