#include "tools/common/tokenizer_flags.h"

namespace meg::tools {

TokenizerOptions default_tokenizer() {
  TokenizerOptions tokenizer;
  tokenizer.tokenizer_type = "GPT2BPETokenizer";
  return tokenizer;
}

void declare_tokenizer_files(Flags& flags, TokenizerOptions& tokenizer) {
  flags
      .value("--vocab-file", &tokenizer.vocab_file, "FILE",
             "vocabulary, such as GPT-2's vocab.json")
      .old_name("--vocab");
  flags.value("--merge-file", &tokenizer.merge_file, "FILE", "BPE merges, such as merges.txt");
  flags.value("--tokenizer-model", &tokenizer.tokenizer_model, "FILE", "the tokenizer's model");
  flags.value("--vocab-size", &tokenizer.vocab_size, "N", "tokens, for NullTokenizer");
}

void declare_tokenizer_flags(Flags& flags, TokenizerOptions& tokenizer) {
  flags.value("--tokenizer-type", &tokenizer.tokenizer_type, "TYPE", "kind of tokenizer");
  declare_tokenizer_files(flags, tokenizer);
}

}  // namespace meg::tools
