#pragma once

#include <memory>

#include "libmeg/base/cpu.h"
#include "libmeg/tokenizer/interface/tokenizer.h"
#include "libmeg/tokenizer/models/internal/bpe/bpe_model.h"
#include "libmeg/tokenizer/models/internal/bpe/fast/merge_table.h"
#include "libmeg/tokenizer/words/internal/word_scan.h"

namespace meg::tokenizer::fast {

/// Encoder of BPE: a pretokenizer (word_scan.h), bounded caches of word -> ids (word_caches.h) and,
/// for words that are in none, merging (word_merger.h).
/// dtype: kUint16 (where every id fits) or kInt32. set: that words are looked up with. split: what
/// VectorFunctions::scan_split needs. model, its table and split must outlive the encoder.
std::unique_ptr<TokenEncoder> new_fast_encoder(const BpeModel& model, const MergeTable& table,
                                               DType dtype, WordScanner scan, InstructionSet set,
                                               const WordSplit* split = nullptr);

}  // namespace meg::tokenizer::fast
