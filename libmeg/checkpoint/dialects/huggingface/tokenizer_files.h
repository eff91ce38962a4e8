#pragma once

#include <string>

#include "libmeg/base/status.h"
#include "libmeg/checkpoint/dialects/mp_rank/checkpoint_folder.h"

namespace meg::checkpoint {

/// The folder of a Megatron checkpoint in which its tokenizer's files lie.
inline constexpr const char* kTokenizerFolder = "tokenizer";

/// Copies the files that say how a checkpoint's texts become tokens into `to`, which is made where
/// there are any: those of a Hugging Face folder that transformers' tokenizers read, else all of
/// the checkpoint's folder "tokenizer". Links are followed.
Status copy_tokenizer_files(const CheckpointFolder& checkpoint, const std::string& to);

}  // namespace meg::checkpoint
