#pragma once

#include <cstdint>
#include <optional>

#include "libmeg/checkpoint/dialects/mp_rank/megatron_checkpoint.h"

namespace meg::checkpoint {

/// The field that a conversion from a dialect without padding rows adds to args: the rows of its
/// tables, in tokens. Megatron-LM does not read it. `vocab_size` would be compared with the
/// tokenizer, and tables often have more rows than that has tokens.
inline constexpr const char* kTrueVocabSizeArg = "true_vocab_size";

/// Tokens of the tokenizer as args state them: vocab_size, which most runs leave None, and with
/// NullTokenizer up to core 0.17 one more. nullopt if it is not there.
std::optional<int64_t> tokenizer_size_of_args(const MegatronCheckpoint& checkpoint);

/// Tokens of the vocabulary without padding, as args state them: true_vocab_size, or the
/// tokenizer's. nullopt if neither is there.
std::optional<int64_t> vocab_size_of_args(const MegatronCheckpoint& checkpoint);

/// kInvalidArgument for a size without padding that would take rows for padding which are tokens by
/// the checkpoint's args, or that has more rows than its tables. Tables of Hugging Face models,
/// which state nothing but their rows, may be cut anywhere.
Status check_true_vocab_size(const MegatronCheckpoint& checkpoint, int64_t true_vocab_size,
                             int64_t rows);

/// The same if it explains `rows`, those of the tables: they are as many, or what Megatron pads
/// this vocabulary to at a tensor-parallel size that divides the attention heads. nullopt
/// otherwise, as tables may have rows beyond the tokenizer's vocabulary that are no padding.
std::optional<int64_t> unpadded_vocab_size(const MegatronCheckpoint& checkpoint, int64_t rows);

}  // namespace meg::checkpoint
