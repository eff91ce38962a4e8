#pragma once

#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/base/status.h"
#include "libmeg/checkpoint/dialects/mp_rank/checkpoint_folder.h"

namespace meg::checkpoint {

/// The folder of a Megatron checkpoint that holds its tokenizer's files.
inline constexpr const char* kTokenizerFolder = "tokenizer";

/// Looks at a checkpoint's tokenizer files before work that copies them at its end, and returns
/// what they leave out: folders. Errors: what is not a regular file, or cannot be read.
Result<std::vector<std::string>> check_tokenizer_files(const CheckpointFolder& checkpoint);

/// Copies a checkpoint's tokenizer files into `to`, which is created if there are any: from a
/// Hugging Face folder the files that transformers' tokenizers read, otherwise everything in the
/// checkpoint's folder "tokenizer". Links are followed.
Status copy_tokenizer_files(const CheckpointFolder& checkpoint, const std::string& to);

}  // namespace meg::checkpoint
