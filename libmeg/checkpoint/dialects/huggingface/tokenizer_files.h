#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/base/status.h"
#include "libmeg/checkpoint/dialects/mp_rank/checkpoint_folder.h"

namespace meg::checkpoint {

/// What makes a folder a Hugging Face model.
inline constexpr const char* kConfigName = "config.json";

/// The folder of a Megatron checkpoint that holds its tokenizer's files.
inline constexpr const char* kTokenizerFolder = "tokenizer";

/// Looks at a checkpoint's tokenizer files before work that copies them at its end, and returns
/// what they leave out: folders. Errors: what is not a regular file, or cannot be read.
Result<std::vector<std::string>> check_tokenizer_files(const CheckpointFolder& checkpoint);

/// A file that belongs to a checkpoint's tokenizer.
struct TokenizerFile {
  std::string name, path;
};

/// A checkpoint's tokenizer files: of a Hugging Face folder those that transformers' tokenizers and
/// generation read, config.json among them, otherwise all files in the checkpoint's folder
/// "tokenizer". Errors: what is not a regular file, or cannot be read.
Result<std::vector<TokenizerFile>> tokenizer_files(const CheckpointFolder& checkpoint);

/// The files of a tokenizer, given by the files and folders that it is opened from, for a
/// checkpoint's folder "tokenizer": of folders those that transformers' tokenizers read, without
/// config.json, which belongs to another model. kInvalidArgument where two have one name; what
/// cannot be read.
Result<std::vector<TokenizerFile>> files_of_tokenizer(std::span<const std::string> paths);

/// Copies files into `to`, which is created if there are any.
Status copy_tokenizer_files(std::span<const TokenizerFile> files, const std::string& to);

/// Copies a checkpoint's tokenizer files into `to`, which is created if there are any. Links are
/// followed.
Status copy_tokenizer_files(const CheckpointFolder& checkpoint, const std::string& to);

/// The path of the config.json of the Hugging Face model that this checkpoint is or came from,
/// which copy_tokenizer_files() takes along; nullopt if there is none.
std::optional<std::string> source_config_path(const CheckpointFolder& checkpoint);

}  // namespace meg::checkpoint
