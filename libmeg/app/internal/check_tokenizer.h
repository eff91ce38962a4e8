#pragma once

#include <cstdint>

#include "libmeg/base/status.h"
#include "libmeg/checkpoint/dialects/mp_rank/megatron_checkpoint.h"
#include "libmeg/tokenizer/open_tokenizer.h"
#include "libmeg/tokenizer/tokenizer.h"

namespace meg::app {

/// Rows of the checkpoint's embedding: tokens and padding.
int64_t vocabulary_rows(const checkpoint::MegatronCheckpoint& checkpoint);

/// kInvalidArgument, naming what differs, where the tokenizer has another number of tokens than the
/// checkpoint was trained with. options: what it was opened with.
Status check_vocabulary_size(const tokenizer::Tokenizer& tokenizer,
                             const tokenizer::TokenizerOptions& options,
                             const checkpoint::MegatronCheckpoint& checkpoint);

/// kInvalidArgument, naming both, where another tokenizer made the checkpoint's training data: what
/// the files beside its datasets say, as far as its args name datasets that are there, else the
/// tokenizer of its args, where its files are. Else the errors of reading those.
Status check_tokenizer_identity(const tokenizer::Tokenizer& tokenizer,
                                const tokenizer::TokenizerOptions& options,
                                const checkpoint::MegatronCheckpoint& checkpoint);

}  // namespace meg::app
