#include "libmeg/tokenizer/open_tokenizer.h"

#include "libmeg/tokenizer/internal/tokenizer_type.h"

namespace meg::tokenizer {

Result<std::unique_ptr<Tokenizer>> open_tokenizer(const TokenizerOptions& options) {
  MEG_ASSIGN_OR_RETURN(const TokenizerType* type, find_tokenizer_type(options.tokenizer_type));
  MEG_RETURN_IF_ERROR(check_required_flags(*type, options));
  MEG_RETURN_IF_ERROR(
      metadata_of(*type, options, options.version.value_or(megatron::newest_megatron_version()))
          .status());
  return type->open(options);
}

bool names_tokenizer(const TokenizerOptions& options) {
  const auto type = find_tokenizer_type(options.tokenizer_type);
  return type.has_value() && check_required_flags(**type, options).ok();
}

}  // namespace meg::tokenizer
