#include "libmeg/tokenizer/registry/open_tokenizer.h"

#include "libmeg/tokenizer/registry/internal/tokenizer_type.h"
#include "libmeg/tokenizer/registry/internal/wrong_file.h"

namespace meg::tokenizer {

Result<std::unique_ptr<Tokenizer>> open_tokenizer(const TokenizerOptions& options) {
  MEG_ASSIGN_OR_RETURN(const TokenizerType* type, find_tokenizer_type(options.tokenizer_type));
  MEG_RETURN_IF_ERROR(check_required_flags(*type, options));
  MEG_RETURN_IF_ERROR(
      metadata_of(*type, options, options.version.value_or(megatron::newest_megatron_version()))
          .status());
  auto opened = type->open(options);
  if (!opened.has_value()) return explain_wrong_file(*type, options, opened.error());
  return opened;
}

std::optional<int32_t> pad_of_datasets(const Tokenizer& tokenizer,
                                       const TokenizerOptions& options) {
  const auto type = find_tokenizer_type(options.tokenizer_type);
  if (!type.has_value()) return std::nullopt;
  const bool has_core_classes =
      options.version.value_or(megatron::newest_megatron_version()).core_tokenizers > 0;
  switch ((*type)->tells_pad) {
    case TellsPad::kAlways:
      break;
    case TellsPad::kSinceCore015:
      if (!has_core_classes) return std::nullopt;
      break;
    case TellsPad::kOfCoreClass:
      if (!has_core_classes || options.legacy_tokenizer) return std::nullopt;
      break;
  }
  return tokenizer.pad();
}

bool names_tokenizer(const TokenizerOptions& options) {
  const auto type = find_tokenizer_type(options.tokenizer_type);
  return type.has_value() && check_required_flags(**type, options).ok();
}

}  // namespace meg::tokenizer
