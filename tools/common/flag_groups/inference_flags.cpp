#include "tools/common/flag_groups/inference_flags.h"

#include "libmeg/megatron/argument_table.h"
#include "libmeg/model/gpt_config.h"
#include "libmeg/model/hybrid_pattern.h"
#include "libmeg/nn/gpt_options.h"
#include "tools/common/checkpoint_tokenizer.h"
#include "tools/common/flag_groups/device_flag.h"
#include "tools/common/ranks.h"
#include "tools/common/report.h"

namespace meg::tools {
namespace {

using megatron::ArgumentFamily;
using megatron::Effect;

void read_inference_args(megatron::FieldReader& args, InferenceFlags& inference) {
  args.take("load", inference.load);
  args.take("ckpt_step", inference.ckpt_step);
  args.take("use_checkpoint_args", inference.use_checkpoint_args);
  args.take("seq_length", inference.sequence_length);
  args.take("micro_batch_size", inference.micro_batch_size);
  args.take("seed", inference.seed);
  inference.tokenizer.take_fields(args);
}

std::vector<std::string> inference_fields() {
  return megatron::fields_read_by([](const megatron::FieldLookup& args) {
    (void)model::GptConfig::from_fields(args);
    (void)nn::GptOptions::from_fields(args);
    megatron::FieldReader reader(args);
    InferenceFlags inference;
    read_inference_args(reader, inference);
    RankFlags().take_fields(reader);
    model::HybridArgs().take_fields(reader);
    (void)takes_checkpoint_tokenizer(reader);
  });
}

/// What can make no difference to a model that is only used. Training's rows alone are judged by
/// their effect: "data" of the program's own family are its inputs and answers.
ArgumentScope training_scope() {
  constexpr std::string_view kNotSaved = "nothing is saved here";
  constexpr std::string_view kNoOptimizer = "only weights are loaded";
  return {.reads = inference_fields(),
          .required = {"load"},
          .idle = {{megatron::Effect::kData, "no training data is read"},
                   {megatron::Effect::kSchedule, "nothing is trained here"},
                   {megatron::Effect::kOptimizer, "nothing is trained here"},
                   {megatron::Effect::kParallel, "answers do not depend on it"},
                   {megatron::Effect::kLog, "no training log"}},
          .idle_fields = {{"save", kNotSaved},
                          {"save_interval", kNotSaved},
                          {"no_save_optim", kNotSaved},
                          {"no_save_rng", kNotSaved},
                          {"async_save", kNotSaved},
                          {"no_load_optim", kNoOptimizer},
                          {"no_load_rng", kNoOptimizer},
                          {"finetune", kNoOptimizer},
                          {"use_legacy_models", "the checkpoint's names are used"},
                          {"exit_on_missing_checkpoint", "the program always does this"}}};
}

}  // namespace

void declare_inference_flags(Flags& flags, megatron::ArgumentFamily family,
                             const std::map<std::string_view, std::string_view>& idle_fields,
                             InferenceFlags& inference) {
  flags.notes(is_first_rank());
  flags.group("Flags of libmeg's own");
  declare_device_flag(flags, inference.device);
  flags.toggle("--allow-other-tokenizer", &inference.allow_other_tokenizer,
               "accept a tokenizer other than the one that made the checkpoint's training data");
  // The program's family first: of equal flags the first counts.
  const ArgumentScope own = {
      .reads = inference_fields(), .required = {}, .idle = {}, .idle_fields = idle_fields};
  flags.arguments(megatron::argument_rows(family), own, &inference.args);
  flags.arguments(megatron::argument_rows(ArgumentFamily::kTraining), training_scope(),
                  &inference.args);
}

Status finish_inference_flags(const Flags& flags, InferenceFlags& inference) {
  inference.settings = flags.settings();
  // How its segments split the layers makes no difference to the answers.
  const auto pattern = model::take_hybrid_pattern(inference.args);
  if (!pattern.has_value()) return pattern.error();
  MEG_ASSIGN_OR_RETURN(inference.tokenizer_origin,
                       take_checkpoint_tokenizer(inference.args, inference.checkpoint));
  const megatron::FieldLookup fields = inference.args.lookup();
  megatron::FieldReader args(fields);
  read_inference_args(args, inference);
  MEG_RETURN_IF_ERROR(args.status());
  MEG_RETURN_IF_ERROR(check_precision(inference.args));
  // Half a shape would silently be completed with the checkpoint's.
  int given = 0;
  for (const char* dest : {"num_layers", "hidden_size", "num_attention_heads"}) {
    given += inference.args.given(dest) ? 1 : 0;
  }
  if (inference.use_checkpoint_args || given == 0 || given == 3) return Status();
  return Status(StatusCode::kInvalidArgument,
                "--num-layers, --hidden-size, --num-attention-heads: expected all of them, or none "
                "to use the checkpoint's (--use-checkpoint-args fills in those that are missing)");
}

}  // namespace meg::tools
