#include "tools/common/tokenizer_of_args.h"

#include <string_view>

#include "libmeg/megatron/field_reader.h"
#include "libmeg/tokenizer/registry/open_tokenizer.h"

namespace meg::tools {

checkpoint::TokenIds token_ids(const checkpoint::MegatronCheckpoint& checkpoint) {
  const megatron::FieldLookup fields = [&](std::string_view name) {
    return checkpoint.described_arg(name);
  };
  megatron::FieldReader args(fields);
  tokenizer::TokenizerOptions options;
  options.take_fields(args);
  if (!args.status().ok() || !tokenizer::names_tokenizer(options)) return {};
  const auto opened = tokenizer::open_tokenizer(options);
  if (!opened.has_value()) return {};
  return {.bos = (*opened)->bos(), .eos = (*opened)->eod(), .pad = (*opened)->pad()};
}

}  // namespace meg::tools
