#include "libmeg/tokenizer/interface/tokenizer_options.h"

namespace meg::tokenizer {

void TokenizerOptions::take_fields(megatron::FieldReader& args) {
  args.take("tokenizer_type", tokenizer_type);
  args.take("vocab_file", vocab_file);
  args.take("merge_file", merge_file);
  args.take("tokenizer_model", tokenizer_model);
  args.take("metadata_path", tokenizer_metadata);
  args.take("vocab_size", vocab_size);
  args.take("legacy_tokenizer", legacy_tokenizer);
  args.take("vocab_extra_ids", vocab_extra_ids);
  args.take("tiktoken_pattern", tiktoken_pattern);
  args.take("tiktoken_num_special_tokens", tiktoken_num_special_tokens);
  args.take("tiktoken_special_tokens", tiktoken_special_tokens);
  args.take("null_tokenizer_eod_id", null_tokenizer_eod_id);
  args.take("null_tokenizer_pad_id", null_tokenizer_pad_id);
  args.take("tokenizer_hf_use_fast", hf_use_fast);
  args.take("tokenizer_hf_include_special_tokens", hf_include_special_tokens);
  bool without_special_tokens = false;
  args.take("tokenizer_hf_no_include_special_tokens", without_special_tokens);
  if (without_special_tokens) hf_include_special_tokens = false;
}

}  // namespace meg::tokenizer
