#include "tools/common/tokenizer_flags.h"

namespace meg::tools {

tokenizer::TokenizerOptions default_tokenizer() {
  tokenizer::TokenizerOptions tokenizer;
  tokenizer.tokenizer_type = "GPT2BPETokenizer";
  return tokenizer;
}

void read_tokenizer_args(megatron::FieldReader& args, tokenizer::TokenizerOptions& tokenizer) {
  args.take("tokenizer_type", tokenizer.tokenizer_type);
  args.take("vocab_file", tokenizer.vocab_file);
  args.take("merge_file", tokenizer.merge_file);
  args.take("tokenizer_model", tokenizer.tokenizer_model);
  args.take("metadata_path", tokenizer.tokenizer_metadata);
  args.take("vocab_size", tokenizer.vocab_size);
  args.take("legacy_tokenizer", tokenizer.legacy_tokenizer);
  args.take("vocab_extra_ids", tokenizer.vocab_extra_ids);
  args.take("tiktoken_pattern", tokenizer.tiktoken_pattern);
  args.take("tiktoken_num_special_tokens", tokenizer.tiktoken_num_special_tokens);
  args.take("tiktoken_special_tokens", tokenizer.tiktoken_special_tokens);
  args.take("null_tokenizer_eod_id", tokenizer.null_tokenizer_eod_id);
  args.take("null_tokenizer_pad_id", tokenizer.null_tokenizer_pad_id);
  bool without_special_tokens = false;
  args.take("tokenizer_hf_no_include_special_tokens", without_special_tokens);
  if (without_special_tokens) tokenizer.hf_include_special_tokens = false;
}

}  // namespace meg::tools
