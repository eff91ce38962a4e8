#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libmeg/checkpoint/container/torch_file/torch_file_writer.h"
#include "libmeg/checkpoint/convert/copy_list.h"
#include "libmeg/checkpoint/dialects/huggingface/huggingface_checkpoint.h"
#include "libmeg/model/parameter_count.h"

namespace meg::checkpoint {

struct ImportOptions {
  model::ParallelSizes sizes;
  /// Tokens of the unpadded vocabulary; without it the rows that the tables have.
  std::optional<int64_t> true_vocab_size;
  int64_t make_vocab_size_divisible_by = 128;
  model::NameFamily names = model::NameFamily::kMcoreLocal;
  std::optional<DType> params_dtype;  ///< Of the weights; without: the source's.
};

/// A rank's file to be written: its content, and which copy fills each storage.
struct ImportedFile {
  std::string path;  ///< Relative to the checkpoint's folder: mp_rank_00/model_optim_rng.pt.
  TorchFileContent content;
  TorchFileLayout layout;
  std::vector<TensorCopy> copies;  ///< By storage.
};

struct ImportPlan {
  std::vector<ImportedFile> files;
  std::vector<std::string> tokenizer_files;
  std::string source_folder;
  int64_t source_vocab_rows = 0, target_vocab_rows = 0;
  int64_t parameter_count = 0;  ///< Without padding rows.
  std::vector<std::string> notes;

  int64_t source_bytes() const;
  int64_t target_bytes() const;
};

/// Plans Megatron's rank files of a Hugging Face model: weights and args, no optimizer.
/// kInvalidArgument for sizes that do not divide (says which would), kUnsupported where the family
/// of names has no name for a parameter.
Result<ImportPlan> plan_import(const HuggingFaceCheckpoint& checkpoint,
                               const ImportOptions& options);

/// Runs a plan: save_dir/release appears by one rename when every file is whole and flushed, the
/// tracker file last; tokenizer files go into release/tokenizer.
Status save_import(const ImportPlan& plan, const std::string& save_dir,
                   const TransferOptions& options);

}  // namespace meg::checkpoint
