#include "tools/common/tokenizer_flags.h"

namespace meg::tools {

tokenizer::TokenizerOptions default_tokenizer() {
  tokenizer::TokenizerOptions tokenizer;
  tokenizer.tokenizer_type = "GPT2BPETokenizer";
  return tokenizer;
}

std::map<std::string_view, std::string_view> tokenizer_idle_fields() {
  constexpr std::string_view kReason = "only TikTokenizer has it";
  return {{"tiktoken_pattern", kReason},
          {"tiktoken_num_special_tokens", kReason},
          {"tiktoken_special_tokens", kReason}};
}

void read_tokenizer_args(megatron::FieldReader& args, tokenizer::TokenizerOptions& tokenizer) {
  args.take("tokenizer_type", tokenizer.tokenizer_type);
  args.take("vocab_file", tokenizer.vocab_file);
  args.take("merge_file", tokenizer.merge_file);
  args.take("tokenizer_model", tokenizer.tokenizer_model);
  args.take("vocab_size", tokenizer.vocab_size);
}

}  // namespace meg::tools
