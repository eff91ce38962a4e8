#include "libmeg/tokenizer/registry/identify_tokenizer.h"

#include "libmeg/tokenizer/registry/internal/tokenizer_type.h"

namespace meg::tokenizer {

Result<megatron::TokenizerIdentity> identify_tokenizer(const TokenizerOptions& options,
                                                       const megatron::MegatronVersion& version) {
  if (version.index_cache_form != megatron::IndexCacheForm::kDatasetPath) {
    return megatron::TokenizerIdentity{};
  }
  MEG_ASSIGN_OR_RETURN(const TokenizerType* type, find_tokenizer_type(options.tokenizer_type));
  if (type->identified != nullptr && !(version.*type->identified)) {
    return make_error(
        StatusCode::kInvalidArgument,
        "`tokenizer_type` {}: revision {} of Megatron-LM does not build index caches with it",
        type->name, version.name);
  }
  if (type->legacy_identity == nullptr) {
    return make_error(StatusCode::kUnsupported, "`tokenizer_type` {}: not supported yet",
                      type->name);
  }
  const bool legacy = version.core_tokenizers == 0 || options.legacy_tokenizer;
  if (legacy || !type->core_knows_name) {
    MEG_RETURN_IF_ERROR(check_required_flags(*type, options));
  }
  if (legacy) return type->legacy_identity(options);
  MEG_ASSIGN_OR_RETURN(const TokenizerMetadata metadata, metadata_of(*type, options, version));
  megatron::TokenizerIdentity identity = type->core_identity(options, version.core_tokenizers);
  identity.class_name = fmt::format("megatron.core.tokenizers.text.models.{}", metadata.class_name);
  return identity;
}

}  // namespace meg::tokenizer
