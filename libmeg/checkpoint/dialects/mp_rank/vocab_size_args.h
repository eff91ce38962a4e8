#pragma once

#include <cstdint>
#include <optional>

#include "libmeg/checkpoint/dialects/mp_rank/megatron_checkpoint.h"

namespace meg::checkpoint {

/// The field that a conversion from a dialect without padding rows adds to args: the rows of its
/// tables, in tokens. Megatron-LM does not read it. `vocab_size` would be compared with the
/// tokenizer, and tables often have more rows than that has tokens.
inline constexpr const char* kTrueVocabSizeArg = "true_vocab_size";

/// Tokens of the vocabulary without padding, as args state them: true_vocab_size, or vocab_size,
/// which most runs leave None. nullopt if neither is there.
std::optional<int64_t> vocab_size_of_args(const MegatronCheckpoint& checkpoint);

/// The same if it explains `rows`, those of the tables: they are as many, or what Megatron pads
/// this vocabulary to at a tensor-parallel size that divides the attention heads. nullopt
/// otherwise, as tables may have rows beyond the tokenizer's vocabulary that are no padding.
std::optional<int64_t> unpadded_vocab_size(const MegatronCheckpoint& checkpoint, int64_t rows);

}  // namespace meg::checkpoint
