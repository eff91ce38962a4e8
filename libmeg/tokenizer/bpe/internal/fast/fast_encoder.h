#pragma once

#include <memory>

#include "libmeg/base/cpu.h"
#include "libmeg/tokenizer/bpe/internal/fast/merge_table.h"
#include "libmeg/tokenizer/tokenizer.h"

namespace meg::tokenizer::fast {

/// Encoder of GPT-2's byte-level BPE: a vectorized pretokenizer (word_scan.h), bounded caches of
/// word -> ids (word_cache.h) and, for words that are in none, merging (word_merger.h).
/// dtype: kUint16 (where every id fits) or kInt32. table must outlive the encoder.
std::unique_ptr<TokenEncoder> new_fast_encoder(const MergeTable& table, DType dtype,
                                               InstructionSet set);

}  // namespace meg::tokenizer::fast
