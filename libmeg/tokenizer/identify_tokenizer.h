#pragma once

#include "libmeg/base/result.h"
#include "libmeg/megatron/megatron_version.h"
#include "libmeg/megatron/tokenizer_identity.h"
#include "libmeg/tokenizer/open_tokenizer.h"

namespace meg::tokenizer {

/// What Megatron at `version` calls the tokenizer of these flags. legacy_tokenizer: the short class
/// names also where the revision has new ones (--legacy-tokenizer of core 0.15 and 0.16).
/// kInvalidArgument where a file that the tokenizer type needs is not named, and where the revision
/// builds no index caches with that type; else what lacking_tokenizer_type gives.
Result<megatron::TokenizerIdentity> identify_tokenizer(const TokenizerOptions& options,
                                                       const megatron::MegatronVersion& version,
                                                       bool legacy_tokenizer);

}  // namespace meg::tokenizer
