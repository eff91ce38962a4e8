#pragma once

#include <string>

#include "libmeg/base/status.h"
#include "libmeg/checkpoint/dialects/mp_rank/checkpoint_folder.h"

namespace meg::checkpoint {

/// The folder of a Megatron checkpoint that holds its tokenizer's files.
inline constexpr const char* kTokenizerFolder = "tokenizer";

/// Copies a checkpoint's tokenizer files into `to`, which is created if there are any: from a
/// Hugging Face folder the files that transformers' tokenizers read, otherwise everything in the
/// checkpoint's folder "tokenizer". Links are followed.
Status copy_tokenizer_files(const CheckpointFolder& checkpoint, const std::string& to);

}  // namespace meg::checkpoint
