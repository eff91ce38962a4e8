#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/tokenizer/training/internal/token_list.h"
#include "libmeg/tokenizer/training/internal/training_words.h"

namespace meg::tokenizer {

/// When learning ends, unless no pair is left before.
struct MergeGoal {
  size_t vocab_size = 0;      ///< tokens
  int64_t min_frequency = 0;  ///< minimum number of occurrences of a pair to be merged
};

/// Pairs of ids in the order in which they were merged; a pair may come again, see below.
using LearnedMerges = std::vector<std::pair<uint32_t, uint32_t>>;

/// Asked now and then with the tokens so far; false ends the work with kCancelled.
using LearnProgress = std::function<bool(size_t tokens)>;

// Both implementations learn byte-pair merges of words: of all pairs of neighbours the most
// frequent one, of equals that of the smaller ids, becomes a token, which goes to `tokens`.
//
// Their results are those of Hugging Face tokenizers 0.23, models/bpe/trainer.rs: do_train, also
// where it does not count what a plain algorithm would:
// - The count of a pair that is merged stays; only its neighbours' counts change.
// - A merge may make a token that is there already, of other parts. Pairs with it can then come
//   anew. They are queued beside what may still be queued of the same pair, each with the words in
//   which they came up, and an entry's turn merges them in its words alone. So a pair may be merged
//   more than once.

namespace fast {

Result<LearnedMerges> learn_merges(const TrainingWords& words, const MergeGoal& goal,
                                   TokenList& tokens, const LearnProgress& progress);

}  // namespace fast

namespace reference {

LearnedMerges learn_merges(const TrainingWords& words, const MergeGoal& goal, TokenList& tokens);

}  // namespace reference

}  // namespace meg::tokenizer
