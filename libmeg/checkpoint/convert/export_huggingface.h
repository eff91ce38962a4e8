#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libmeg/checkpoint/container/safetensors/safetensors_header.h"
#include "libmeg/checkpoint/convert/copy_list.h"
#include "libmeg/checkpoint/convert/virtual_file.h"
#include "libmeg/checkpoint/dialects/huggingface/tokenizer_files.h"
#include "libmeg/checkpoint/dialects/mp_rank/megatron_checkpoint.h"

namespace meg::checkpoint {

/// Ids of special tokens of a tokenizer.
struct TokenIds {
  std::optional<int64_t> bos, eos, pad;
};

/// What an exported folder has of its tokenizer.
struct ExportTokenizer {
  TokenIds ids;  ///< For models that did not come with a config.json.
  /// Its files, by the names that they get; nullopt: the checkpoint's (tokenizer_files()), as they
  /// are.
  std::optional<std::vector<TokenizerFile>> files;
  std::string config_json;  ///< Of tokenizer_config.json, which is none of `files`; empty: none.
  std::vector<std::string> notes;
};

struct ExportOptions {
  /// Tokens of the unpadded vocabulary; nullopt: as args state it (unpadded_vocab_size()), and if
  /// they do not, the tables keep their padding rows.
  std::optional<int64_t> true_vocab_size;
  /// Whether the vocabulary is the tokenizer's (vocab_size in args) also where the model came from
  /// Hugging Face with more rows (true_vocab_size).
  bool tokenizer_vocab_size = false;
  ExportTokenizer tokenizer;
  std::optional<DType> params_dtype;  ///< Dtype of the weights; nullopt: the source's.
  uint64_t max_shard_bytes = 5'000'000'000;
};

/// A safetensors file to be written.
struct ExportedFile {
  std::string name;
  SafetensorsLayout layout;
  std::vector<TensorCopy> copies;  ///< One per tensor of the layout.
};

struct ExportPlan {
  std::string class_name;  ///< "LlamaForCausalLM"
  std::string config_json;
  std::string index_json;  ///< Empty where one file holds everything.
  std::vector<ExportedFile> files;
  CheckpointFolder source;
  ExportTokenizer tokenizer;
  int64_t source_vocab_rows = 0, target_vocab_rows = 0;
  int64_t parameter_count = 0;  ///< Elements of the written tensors.
  std::vector<std::string> notes;

  int64_t source_bytes() const;
  int64_t target_bytes() const;
};

/// Plans a Hugging Face folder of a Megatron checkpoint's weights. kUnsupported, with the arg's
/// name, if no architecture of transformers computes the same; kCorruption if a storage's CRC-32 is
/// not the one that its file records.
Result<ExportPlan> plan_export(const MegatronCheckpoint& checkpoint, const ExportOptions& options);

/// The files of the folder that a plan makes, to be read without being written: those of `files`
/// first, config.json last. Errors: those of opening tokenizer files; kInvalidArgument where one of
/// them has the name of another file.
Result<std::vector<VirtualFile>> virtual_files(const ExportPlan& plan);

/// Runs a plan: save_dir appears by one rename when every file is complete and flushed. An older
/// folder of that name is replaced only then; kInvalidArgument if it is not a Hugging Face model.
Status save_export(const ExportPlan& plan, const std::string& save_dir,
                   const TransferOptions& options);

}  // namespace meg::checkpoint
