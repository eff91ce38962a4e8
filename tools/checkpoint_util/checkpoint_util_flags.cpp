#include "tools/checkpoint_util/checkpoint_util_flags.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "libmeg/tokenizer/inspect/describe_tokenizer.h"
#include "tools/common/byte_size.h"
#include "tools/common/flags/flags.h"
#include "tools/common/report.h"

namespace meg::tools {
namespace {

constexpr int64_t kMaxRanks = 1 << 16;
constexpr int64_t kMaxRows = int64_t{1} << 31;

void declare_target(Flags& flags, CheckpointUtilArguments& arguments) {
  flags.group("Target");
  flags.value("--save-dir", &arguments.save_dir, "DIR",
              "folder to save the reshaped checkpoint in");
  flags
      .value("--target-tensor-parallel-size", &arguments.target_tensor_size, "N",
             "tensor-parallel size (default: the source's)")
      .range(1, kMaxRanks);
  flags
      .value("--target-pipeline-parallel-size", &arguments.target_pipeline_size, "N",
             "pipeline-parallel size (default: the source's)")
      .range(1, kMaxRanks);
  flags
      .value("--target-virtual-pipeline-parallel-size", &arguments.target_virtual_size, "N",
             "virtual pipeline stages per stage (model0, model1, ...); 1: none")
      .range(1, kMaxRanks);
  flags
      .value("--target-expert-parallel-size", &arguments.target_expert_size, "N",
             "expert-parallel size (default: the source's)")
      .range(1, kMaxRanks);
  flags
      .value("--target-expert-tensor-parallel-size", &arguments.target_expert_tensor_size, "N",
             "ranks over which each expert is divided (default: the source's if its other sizes "
             "stay, otherwise the tensor-parallel size)")
      .range(1, kMaxRanks);
  flags
      .value("--true-vocab-size", &arguments.true_vocab_size, "N",
             "size of the vocabulary without padding; it is padded again for the target")
      .range(1, kMaxRows);
  flags.value("--vocab-file", &arguments.vocab_file, "FILE",
              "vocab.json whose size is used as --true-vocab-size");
  flags.toggle("--tokenizer-vocab-size", &arguments.tokenizer_vocab_size,
               "with --target-format huggingface: leave out rows that the tokenizer has no token "
               "for, also of a model that came from Hugging Face with them");
  flags
      .value("--target-names", &arguments.target_names, "NAMES",
             "parameter names to save (default: the source's)")
      .choices({"legacy", "mcore", "hybrid"});
  flags
      .value("--saver-transformer-impl", &arguments.saver_transformer_impl, "IMPL",
             "variant of mcore's parameter names (default: what args say)")
      .choices({"local", "transformer_engine"});
  flags
      .value("--target-params-dtype", &arguments.target_params_dtype, "TYPE",
             "type of the saved weights (default: the source's)")
      .choices({"fp32", "bf16", "fp16"});
  flags
      .value("--target-format", &arguments.given_format, "FORMAT",
             "checkpoint format to save (default: torch; with --saver huggingface huggingface)")
      .choices({"torch", "torch_dist", "huggingface", "safetensors"});
  flags.value("--max-shard-size", &arguments.max_shard_size, "SIZE",
              "size limit of one file with --target-format huggingface (default: 5GB)");
  flags.toggle("--no-optim", &arguments.no_optim, "omit the optimizer state");
  flags
      .value("--target-optimizer", &arguments.target_optimizer, "FORM",
             "form of the saved optimizer: distributed is what --use-distributed-optimizer loads "
             "(default: the source's; with --target-format torch_dist distributed)")
      .choices({"plain", "distributed"});
  flags
      .value("--target-data-parallel-size", &arguments.target_data_size, "N",
             "data-parallel size that the distributed optimizer is padded for (default: the "
             "source's)")
      .range(1, kMaxRanks);
}

Status unsupported(std::string_view flag, std::string_view value) {
  return make_error(StatusCode::kUnsupported, "{} {} is not supported yet", flag, value);
}

bool is_one_of(std::string_view value, std::initializer_list<std::string_view> known) {
  return std::find(known.begin(), known.end(), value) != known.end();
}

/// A torch_dist checkpoint has no layout that could be chosen, except the optimizers that several
/// expert-parallel ranks chain; it keeps types and vocabulary.
Status check_torch_dist(const CheckpointUtilArguments& arguments) {
  const bool asks =
      arguments.target_tensor_size.has_value() || arguments.target_pipeline_size.has_value() ||
      arguments.target_virtual_size != 1 || arguments.target_expert_tensor_size.has_value() ||
      arguments.target_names == "legacy" || arguments.true_vocab_size.has_value() ||
      !arguments.vocab_file.empty() || arguments.target_params_dtype.has_value() ||
      arguments.target_data_size.has_value();
  if (!asks) return Status();
  return make_error(StatusCode::kUnsupported,
                    "--target-format torch_dist: cannot be combined with target sizes, legacy "
                    "names, vocabulary or type: any layout can load it");
}

/// A Hugging Face model is one whole, with names of its own.
Status check_huggingface(const CheckpointUtilArguments& arguments) {
  const bool asks = arguments.target_tensor_size.value_or(1) != 1 ||
                    arguments.target_pipeline_size.value_or(1) != 1 ||
                    arguments.target_expert_size.value_or(1) != 1 ||
                    arguments.target_expert_tensor_size.value_or(1) != 1 ||
                    arguments.target_virtual_size != 1 || arguments.target_names.has_value() ||
                    arguments.saver_transformer_impl.has_value() ||
                    arguments.target_data_size.has_value() ||
                    arguments.saver.value_or("huggingface") != "huggingface";
  if (!asks) return Status();
  return make_error(
      StatusCode::kUnsupported,
      "--target-format huggingface: cannot be combined with target sizes other than 1, names, an "
      "implementation or another --saver: the model is written as a whole");
}

/// --bf16 and --fp16, by which Megatron's readers of Hugging Face models say the type of the
/// weights.
Status take_loader_type(CheckpointUtilArguments* arguments) {
  if (!arguments->bf16 && !arguments->fp16) return Status();
  const char* flag = arguments->bf16 ? "--bf16" : "--fp16";
  const bool is_huggingface = is_huggingface_loader(arguments->loader.value_or(""));
  if (arguments->bf16 == arguments->fp16 || !is_huggingface ||
      arguments->target_params_dtype.has_value()) {
    return make_error(StatusCode::kInvalidArgument,
                      "{}: expected only together with a --loader of Hugging Face models; "
                      "otherwise use --target-params-dtype",
                      flag);
  }
  arguments->target_params_dtype = flag + 2;
  return Status();
}

/// --target-format, and the format, names and implementation that Megatron's writer plug-ins stand
/// for.
Status take_saver(CheckpointUtilArguments* arguments) {
  const std::string saver = arguments->saver.value_or("");
  std::string format = arguments->given_format.value_or(saver == "huggingface" ? saver : "torch");
  // The one format that is written in safetensors.
  if (format == "safetensors") format = "huggingface";
  if (saver == "huggingface" && format != saver) {
    return make_error(StatusCode::kInvalidArgument,
                      "--saver huggingface: expected --target-format huggingface, found {}",
                      format);
  }
  arguments->target_format = format;
  if (saver.empty() || saver == "huggingface") return Status();
  if (!is_one_of(saver, {"megatron", "legacy", "mcore", "core"})) {
    return unsupported("--saver", saver);
  }
  // Whether the format can have a plug-in's names is said with the plug-in's name.
  if (format == "huggingface") return Status();
  const bool is_core = is_one_of(saver, {"mcore", "core"});
  if (!arguments->target_names.has_value()) arguments->target_names = is_core ? "mcore" : "legacy";
  // Megatron's saver_core does the same.
  if (is_core && !arguments->saver_transformer_impl.has_value()) {
    arguments->saver_transformer_impl = "transformer_engine";
  }
  return Status();
}

/// What the target's format cannot have.
Status check_format(const CheckpointUtilArguments& arguments) {
  const bool is_huggingface = arguments.target_format == "huggingface";
  if (arguments.target_optimizer.has_value() && (arguments.no_optim || is_huggingface)) {
    return make_error(
        StatusCode::kInvalidArgument,
        "--target-optimizer: cannot be combined with --no-optim or --target-format huggingface");
  }
  if (arguments.max_shard_size.has_value()) {
    const Result<int64_t> size = parse_byte_size(*arguments.max_shard_size);
    if (!size.has_value() || *size < 1) {
      return make_error(StatusCode::kInvalidArgument, "--max-shard-size: expected a size, found {}",
                        *arguments.max_shard_size);
    }
    if (!is_huggingface) {
      return make_error(StatusCode::kInvalidArgument,
                        "--max-shard-size: expected only with --target-format huggingface, found "
                        "{}, whose files' sizes follow from the layout",
                        arguments.target_format);
    }
  }
  const bool has_size = arguments.true_vocab_size.has_value() || !arguments.vocab_file.empty();
  if (arguments.tokenizer_vocab_size && (!is_huggingface || has_size)) {
    return make_error(StatusCode::kInvalidArgument,
                      "--tokenizer-vocab-size: expected only with --target-format huggingface and "
                      "without --true-vocab-size and --vocab-file");
  }
  if (is_huggingface) return check_huggingface(arguments);
  return arguments.target_format == "torch_dist" ? check_torch_dist(arguments) : Status();
}

/// What the values ask for that is not done yet, and Megatron's plug-ins: what they stand for.
Status check_values(CheckpointUtilArguments* arguments) {
  if (arguments->model_type != "GPT") return unsupported("--model-type", arguments->model_type);
  if (arguments->checkpoint_type.value_or("hf") != "hf") {
    return unsupported("--checkpoint-type", *arguments->checkpoint_type);
  }
  if (arguments->loader.has_value()) {
    if (!is_one_of(*arguments->loader, {"megatron", "legacy", "mcore", "core"}) &&
        !is_huggingface_loader(*arguments->loader)) {
      return unsupported("--loader", *arguments->loader);
    }
    note("ignored: --loader (the layout is found in the checkpoint)");
  }
  MEG_RETURN_IF_ERROR(take_loader_type(arguments));
  MEG_RETURN_IF_ERROR(take_saver(arguments));
  return check_format(*arguments);
}

}  // namespace

Result<std::optional<model::NameFamily>> target_family(
    const CheckpointUtilArguments& arguments, const checkpoint::MegatronCheckpoint& checkpoint) {
  using Family = std::optional<model::NameFamily>;
  const auto& names = arguments.target_names;
  const auto& impl = arguments.saver_transformer_impl;
  const bool stays_legacy = !names.has_value() && !model::is_mcore(checkpoint.family());
  if (impl == "transformer_engine" && (names == "legacy" || stays_legacy)) {
    return make_error(StatusCode::kInvalidArgument,
                      "--saver-transformer-impl {}: expected --target-names mcore, found legacy "
                      "names, which only exist for local layers",
                      *impl);
  }
  if (names == "legacy") return Family(model::NameFamily::kLegacy);
  const bool was_hybrid = checkpoint.family() == model::NameFamily::kHybrid;
  if (names == "hybrid" || (was_hybrid && !names.has_value())) {
    if (impl.value_or("transformer_engine") == "transformer_engine") {
      return Family(model::NameFamily::kHybrid);
    }
    return make_error(
        StatusCode::kInvalidArgument,
        "--saver-transformer-impl {}: expected transformer_engine, whose names hybrid names are",
        *impl);
  }
  const bool stays_mcore = model::is_mcore(checkpoint.family()) && !was_hybrid;
  if (!names.has_value() && !stays_mcore) return Family();
  if (stays_mcore && !impl.has_value()) return Family();
  return Family(model::mcore_family(impl.value_or(checkpoint.config().transformer_impl)));
}

std::optional<int> parse_checkpoint_util(int argc, const char* const* argv,
                                         CheckpointUtilArguments* arguments) {
  Flags flags("checkpoint_util",
              "reshapes a GPT checkpoint to other parallel sizes, optimizer state included, and "
              "converts it to other formats and names.");
  flags.usage("--save-dir DIR");
  flags.examples(
      {"checkpoint_util --load-dir checkpoints --save-dir checkpoints_tp2_pp4 "
       "--target-tensor-parallel-size 2 --target-pipeline-parallel-size 4 --true-vocab-size 50257",
       "checkpoint_util --load-dir checkpoints --target-tensor-parallel-size 1 "
       "--target-pipeline-parallel-size 1 --dry-run",
       "checkpoint_util --load-dir checkpoints/iter_0005000 --save-dir weights --no-optim "
       "--target-names mcore --target-params-dtype fp32"});
  flags.group("Source");
  flags
      .value("--load-dir", &arguments->load_dir, "DIR",
             "checkpoint to read: its root folder, an iter_* folder, one file or a Hugging Face "
             "folder")
      .required();
  flags
      .value("--iteration", &arguments->iteration, "N",
             "read iteration N instead of the one that the tracker names")
      .range(0, kMaxRows);
  flags.value("--model-type", &arguments->model_type, "TYPE", "kind of model")
      .choices({"GPT", "BERT", "T5"});
  flags.value("--loader", &arguments->loader, "NAME",
              "Megatron's reader plug-in; the layout is detected without it");
  flags.value("--checkpoint-type", &arguments->checkpoint_type, "TYPE",
              "flag of Megatron's loader_llama_mistral; hf is recognized without it");
  flags.toggle("--bf16", &arguments->bf16,
               "save bf16 weights, with a --loader of Hugging Face models");
  flags.toggle("--fp16", &arguments->fp16,
               "save fp16 weights, with a --loader of Hugging Face models");
  flags.value("--saver", &arguments->saver, "NAME",
              "Megatron's writer plug-in; implies --target-names");
  declare_target(flags, *arguments);
  arguments->checkpoint.declare(flags);
  flags.group("Running");
  flags.toggle("--dry-run", &arguments->dry_run, "show the plan and write nothing");
  flags.value("--memory-budget", &arguments->memory_budget, "SIZE",
              "memory limit of the process, such as 512MiB or 2GiB");
  flags.toggle("--no-crc", &arguments->no_crc, "do not check the CRC-32 of the data read");
  flags.toggle("--json", &arguments->json, "print one JSON object, and nothing else");
  flags.toggle("--no-master-check", &arguments->no_master_check,
               "convert an optimizer whose fp32 weights are not those of the model");
  flags.arguments(megatron::argument_rows(megatron::ArgumentFamily::kConvert), ArgumentScope(),
                  &arguments->args);
  if (const std::optional<int> code = flags.parse(argc, argv)) return code;
  if (arguments->save_dir.empty() && !arguments->dry_run) {
    fail(make_error(StatusCode::kInvalidArgument, "--save-dir is required"));
    return 2;
  }
  if (const Status status = check_values(arguments); !status.ok()) return fail(status);
  return std::nullopt;
}

bool is_huggingface_loader(std::string_view name) {
  return is_one_of(name, {"llama_mistral", "llama2", "llama2_hf", "mixtral_hf", "huggingface"});
}

Result<std::optional<int64_t>> true_vocab_size(const CheckpointUtilArguments& arguments,
                                               const checkpoint::MegatronCheckpoint& checkpoint) {
  if (arguments.true_vocab_size.has_value()) return arguments.true_vocab_size;
  if (arguments.vocab_file.empty()) {
    // Tables of Hugging Face have no padding rows.
    const bool is_padded = checkpoint.folder().format != checkpoint::CheckpointFormat::kHuggingFace;
    return is_padded ? std::nullopt : std::optional(checkpoint.config().padded_vocab_size);
  }
  MEG_ASSIGN_OR_RETURN(const int64_t tokens, tokenizer::count_tokens(arguments.vocab_file));
  return std::optional(tokens);
}

std::optional<DType> params_dtype(const CheckpointUtilArguments& arguments) {
  if (!arguments.target_params_dtype.has_value()) return std::nullopt;
  const std::string& type = *arguments.target_params_dtype;
  return type == "fp32" ? DType::kFloat32 : type == "bf16" ? DType::kBFloat16 : DType::kFloat16;
}

Result<checkpoint::ReshardOptions> reshard_options(
    const CheckpointUtilArguments& arguments, const checkpoint::MegatronCheckpoint& checkpoint) {
  checkpoint::ReshardOptions options;
  options.tensor_model_parallel_size =
      arguments.target_tensor_size.value_or(checkpoint.tensor_model_parallel_size());
  options.pipeline_model_parallel_size =
      arguments.target_pipeline_size.value_or(checkpoint.pipeline_model_parallel_size());
  options.virtual_pipeline_model_parallel_size = arguments.target_virtual_size;
  options.expert_model_parallel_size =
      arguments.target_expert_size.value_or(checkpoint.expert_model_parallel_size());
  options.expert_tensor_parallel_size = arguments.target_expert_tensor_size;
  MEG_ASSIGN_OR_RETURN(options.true_vocab_size, true_vocab_size(arguments, checkpoint));
  MEG_ASSIGN_OR_RETURN(options.names, target_family(arguments, checkpoint));
  options.params_dtype = params_dtype(arguments);
  options.keep_optimizer = !arguments.no_optim;
  options.check_crcs = !arguments.no_crc;
  options.check_masters = !arguments.no_master_check;
  if (arguments.target_optimizer.has_value()) {
    options.distributed_optimizer = arguments.target_optimizer == "distributed";
  }
  options.data_parallel_size = arguments.target_data_size;
  return options;
}

}  // namespace meg::tools
