#include "tools/common/data_flags.h"

#include <limits>

#include "tools/common/megatron_flags.h"

namespace meg::tools {
namespace {

constexpr int64_t kMostSeed = std::numeric_limits<uint32_t>::max();
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr int64_t kMostThreads = 1024;

void declare_datasets(Flags& flags, DataFlags& data) {
  flags.group("Data");
  flags.list("--data-path", &data.data_path, "PREFIX...",
             "one dataset, or datasets to blend: PREFIX PREFIX ... or WEIGHT PREFIX WEIGHT "
             "PREFIX ...; cut by --split");
  auto& [train, valid, test] = data.per_split_path;
  flags.list("--train-data-path", &train, "PREFIX...", "datasets to train on, as --data-path");
  flags.list("--valid-data-path", &valid, "PREFIX...", "datasets to validate on");
  flags.list("--test-data-path", &test, "PREFIX...", "datasets to test on");
  flags.value("--data-args-path", &data.data_args_path, "FILE", "holds what --data-path would say");
  flags.value("--per-split-data-args-path", &data.per_split_data_args_path, "FILE",
              "JSON with keys train, valid, test: what the three flags above would say");
  flags.toggle("--mock-data", &data.mock_data, "made-up documents instead");
  flags.value("--split", &data.split, "WEIGHTS",
              "parts of training, validation and test; else 969, 30, 1");
  flags.value("--seq-length", &data.sequence_length, "N", "tokens of a sample").range(1, kMost);
  flags.value("--seed", &data.seed, "N", "of the shuffles").range(0, kMostSeed);
  flags.value("--data-cache-path", &data.cache_path, "DIR",
              "where index caches are, instead of beside the data");
  flags
      .value("--num-dataset-builder-threads", &data.dataset_builder_threads, "N",
             "indices built at once")
      .range(1, kMostThreads);
  flags.toggle("--no-extra-token", &data.no_extra_token,
               "samples of N tokens instead of N + 1 (add_extra_token_to_sequence off)");
  flags.toggle("--no-drop-last-partial-validation-sequence", &data.keep_last_validation_sequence,
               "keep the last, shorter sample of the validation set");
  flags.value("--megatron-version", &data.megatron_version, "REVISION",
              "files and names of this revision of Megatron-LM, such as core_v0.9.0");
}

void declare_tokenizer(Flags& flags, DataFlags& data) {
  flags.group("Tokenizer (in the names of index caches)");
  declare_tokenizer_flags(flags, data.tokenizer);
  flags.toggle("--legacy-tokenizer", &data.legacy_tokenizer,
               "Megatron's older tokenizer classes, at core 0.15 and 0.16");
}

void declare_length(Flags& flags, DataFlags& data) {
  flags.group("Length of the run");
  RunLength& length = data.length;
  flags.value("--train-iters", &length.train_iters, "N", "training steps").range(0, kMost);
  flags.value("--train-samples", &length.train_samples, "N", "or training samples").range(1, kMost);
  flags.value("--eval-iters", &length.eval_iters, "N", "steps of an evaluation").range(0, kMost);
  flags.value("--eval-interval", &length.eval_interval, "N", "training steps between evaluations")
      .range(0, kMost);
  flags.value("--start-eval-at-iter", &length.start_eval_at_iter, "N", "no evaluation before")
      .range(0, kMost);
  flags.toggle("--full-validation", &length.full_validation, "validate on one whole epoch");
  flags.toggle("--skip-train", &length.skip_train, "evaluate only");
  flags.value("--samples", &data.samples, "TRAIN,VALID,TEST",
              "samples asked for, given directly; None: one epoch");
}

void declare_batches(Flags& flags, DataFlags& data) {
  flags.group("Batches");
  flags.value("--micro-batch-size", &data.micro_batch_size, "N", "samples of a rank at once")
      .old_name("--batch-size")
      .range(1, kMost);
  flags
      .value("--global-batch-size", &data.global_batch_size, "N",
             "samples of a step; else micro batch size x data-parallel size")
      .range(1, kMost);
  flags
      .value("--eval-global-batch-size", &data.length.eval_global_batch_size, "N",
             "samples of a step of an evaluation")
      .range(1, kMost);
  flags.list("--rampup-batch-size", &data.rampup_batch_size, "START INCREMENT SAMPLES",
             "batches that grow up to the global batch size");
  flags
      .value("--tensor-model-parallel-size", &data.tensor_model_parallel_size, "N",
             "ranks that share a layer")
      .old_name("--model-parallel-size")
      .range(1, kMost);
  flags
      .value("--pipeline-model-parallel-size", &data.pipeline_model_parallel_size, "N",
             "ranks that share the layers")
      .range(1, kMost);
  flags
      .value("--context-parallel-size", &data.context_parallel_size, "N",
             "ranks that share a sequence")
      .range(1, kMost);
  flags
      .value("--prepare-cache-world-size", &data.world_size, "N",
             "ranks of the run; else WORLD_SIZE, else one data-parallel rank")
      .range(1, kMost);
  flags.value("--dataloader-type", &data.dataloader_type, "TYPE", "order of the samples")
      .choices({"single", "cyclic", "external"});
}

void declare_fields(Flags& flags, DataFlags& data) {
  flags.group("Fields of a sample (index caches do not depend on them)");
  flags.toggle("--reset-position-ids", &data.reset_position_ids, "positions restart at documents");
  flags.toggle("--reset-attention-mask", &data.reset_attention_mask,
               "attention stays inside documents");
  flags.toggle("--eod-mask-loss", &data.eod_mask_loss, "no loss at ends of documents");
  flags.toggle("--no-create-attention-mask-in-dataloader", &data.no_create_attention_mask,
               "batches without attention mask");
}

}  // namespace

void declare_data_flags(Flags& flags, DataFlags& data) {
  declare_datasets(flags, data);
  declare_tokenizer(flags, data);
  declare_length(flags, data);
  declare_batches(flags, data);
  declare_fields(flags, data);
}

void declare_other_training_flags(Flags& flags) {
  for (const char* name :
       {"--sft", "--fim-data", "--multiple-validation-sets", "--decrease-batch-size-if-needed",
        "--renormalize-blend-weights", "--trust-remote-code", "--tokenizer-hf-no-use-fast",
        "--tokenizer-hf-no-include-special-tokens", "--tokenizer-hf-use-fast",
        "--tokenizer-hf-include-special-tokens", "--tokenizer-sentencepiece-legacy"}) {
    flags.not_yet(name, Arity::kSwitch);
  }
  for (const char* name :
       {"--step-batch-size-schedule", "--phase-transition-iterations",
        "--mid-level-dataset-surplus", "--encoder-seq-length", "--vocab-extra-ids",
        "--null-tokenizer-eod-id", "--null-tokenizer-pad-id", "--chat-template"}) {
    flags.not_yet(name, Arity::kValue);
  }
  flags.not_yet("--tokenizer-special-tokens", Arity::kList);
  flags.others(megatron_switches(), Arity::kSwitch);
  flags.others(megatron_values(), Arity::kValue);
  flags.others(megatron_lists(), Arity::kList);
}

}  // namespace meg::tools
