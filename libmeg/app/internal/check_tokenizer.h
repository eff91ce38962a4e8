#pragma once

#include <cstdint>

#include "libmeg/base/status.h"
#include "libmeg/checkpoint/dialects/mp_rank/megatron_checkpoint.h"
#include "libmeg/tokenizer/interface/tokenizer.h"
#include "libmeg/tokenizer/interface/tokenizer_options.h"

namespace meg::app {

/// Rows of the checkpoint's embedding: tokens and padding.
int64_t vocabulary_rows(const checkpoint::MegatronCheckpoint& checkpoint);

/// kInvalidArgument, naming the difference, if the tokenizer has another number of tokens than the
/// checkpoint was trained with. options: those that the tokenizer was opened with.
Status check_vocabulary_size(const tokenizer::Tokenizer& tokenizer,
                             const tokenizer::TokenizerOptions& options,
                             const checkpoint::MegatronCheckpoint& checkpoint);

/// kInvalidArgument, naming both, if another tokenizer made the checkpoint's training data,
/// according to the files beside the datasets that its args name, if they exist, or otherwise to
/// the tokenizer in its args, if its files exist. Also fails if these cannot be read.
Status check_tokenizer_identity(const tokenizer::Tokenizer& tokenizer,
                                const tokenizer::TokenizerOptions& options,
                                const checkpoint::MegatronCheckpoint& checkpoint);

}  // namespace meg::app
