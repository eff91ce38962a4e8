#pragma once

#include "libmeg/checkpoint/convert/export_huggingface.h"
#include "libmeg/checkpoint/dialects/mp_rank/megatron_checkpoint.h"

namespace meg::tools {

/// The special tokens of the tokenizer that the checkpoint's args name, where its files are here.
checkpoint::TokenIds token_ids(const checkpoint::MegatronCheckpoint& checkpoint);

}  // namespace meg::tools
