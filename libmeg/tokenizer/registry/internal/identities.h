#pragma once

#include "libmeg/megatron/tokenizer_identity.h"
#include "libmeg/tokenizer/interface/tokenizer_options.h"

namespace meg::tokenizer {

// What Megatron-LM calls its tokenizers in the descriptions of index caches, for the rows of the
// table of types: the classes of megatron/training/tokenizer/tokenizer.py, and since core 0.15 the
// keyword arguments that megatron/core/tokenizers/utils/build_tokenizer.py passes on, in order.
// Every flag that the type requires is given.

megatron::TokenizerIdentity gpt2_bpe_legacy_identity(const TokenizerOptions& options);
megatron::TokenizerIdentity word_piece_legacy_identity(const TokenizerOptions& options);
megatron::TokenizerIdentity sentence_piece_legacy_identity(const TokenizerOptions& options);
megatron::TokenizerIdentity hugging_face_legacy_identity(const TokenizerOptions& options);
megatron::TokenizerIdentity tik_legacy_identity(const TokenizerOptions& options);
megatron::TokenizerIdentity null_legacy_identity(const TokenizerOptions& options);

/// The identities of GPT2BPETokenizer, BertWordPieceLowerCase and BertWordPieceCase.
megatron::TokenizerIdentity megatron_core_identity(const TokenizerOptions& options, int release);
megatron::TokenizerIdentity sentence_piece_core_identity(const TokenizerOptions& options,
                                                         int release);
megatron::TokenizerIdentity hugging_face_core_identity(const TokenizerOptions& options,
                                                       int release);
megatron::TokenizerIdentity tik_core_identity(const TokenizerOptions& options, int release);
megatron::TokenizerIdentity null_core_identity(const TokenizerOptions& options, int release);

}  // namespace meg::tokenizer
