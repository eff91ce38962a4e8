#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "libmeg/checkpoint/convert/reshard.h"
#include "libmeg/checkpoint/dialects/mp_rank/megatron_checkpoint.h"
#include "tools/common/flag_groups/checkpoint_flags.h"

namespace meg::tools {

/// What the command line of checkpoint_util says.
struct CheckpointUtilArguments {
  megatron::ArgumentValues args;  ///< Megatron's flags that the others do not name.
  std::string model_type = "GPT";
  std::string load_dir, save_dir;
  std::optional<std::string> loader, saver;
  std::optional<std::string> checkpoint_type;  ///< Of Megatron's loader_llama_mistral.
  bool bf16 = false, fp16 = false;             ///< The same: the type of the weights.
  std::optional<int64_t> iteration;
  std::optional<int64_t> target_tensor_size, target_pipeline_size;
  int64_t target_virtual_size = 1;
  std::optional<int64_t> target_expert_size, target_expert_tensor_size;
  std::optional<int64_t> true_vocab_size;
  std::string vocab_file;
  bool tokenizer_vocab_size = false;
  std::optional<std::string> given_format;  ///< --target-format
  std::string target_format =
      "torch";  ///< What is written: "torch", "torch_dist" or "huggingface".
  std::optional<std::string> max_shard_size;  ///< Only with "huggingface".
  std::optional<std::string> target_names;    ///< "legacy", "mcore" or "hybrid".
  std::optional<std::string> saver_transformer_impl;
  std::optional<std::string> target_params_dtype;
  std::optional<std::string> target_optimizer;  ///< "plain" or "distributed".
  std::optional<int64_t> target_data_size;
  bool no_optim = false;
  std::string memory_budget = "512MiB";
  bool dry_run = false;
  bool no_crc = false;
  bool json = false;
  bool no_master_check = false;
  CheckpointFlags checkpoint;
};

/// An exit code where the program should end now.
std::optional<int> parse_checkpoint_util(int argc, const char* const* argv,
                                         CheckpointUtilArguments* arguments);

/// Whether a name is that of a plug-in of Megatron's that reads Hugging Face models.
bool is_huggingface_loader(std::string_view name);

/// --true-vocab-size, or the size of --vocab-file, or what the checkpoint is known to have.
Result<std::optional<int64_t>> true_vocab_size(const CheckpointUtilArguments& arguments,
                                               const checkpoint::MegatronCheckpoint& checkpoint);

/// --target-params-dtype
std::optional<DType> params_dtype(const CheckpointUtilArguments& arguments);

/// --target-names and --saver-transformer-impl; nullopt: the source's.
Result<std::optional<model::NameFamily>> target_family(
    const CheckpointUtilArguments& arguments, const checkpoint::MegatronCheckpoint& checkpoint);

/// What plan_reshard is to do with this checkpoint. Reads --vocab-file.
Result<checkpoint::ReshardOptions> reshard_options(
    const CheckpointUtilArguments& arguments, const checkpoint::MegatronCheckpoint& checkpoint);

}  // namespace meg::tools
