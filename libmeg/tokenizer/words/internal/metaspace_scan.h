#pragma once

#include "libmeg/tokenizer/models/internal/bpe/bpe_model.h"
#include "libmeg/tokenizer/words/internal/word_scan.h"

namespace meg::tokenizer {

/// A word begins at each U+2581 (the sign for a space).
size_t scan_metaspace_each(fast::WordScan& scan, uint32_t* starts);

/// Finds words, which begin at each run of U+2581. Exact for a model that merges characters and has
/// no merge across such a border.
size_t scan_metaspace_runs(fast::WordScan& scan, uint32_t* starts);

/// Whether a merge joins another character to a U+2581 after it, or the model has no U+2581.
bool merges_cross_metaspace(const BpeModel& model);

}  // namespace meg::tokenizer
