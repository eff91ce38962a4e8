#pragma once

#include "libmeg/core/megatron_version.h"
#include "libmeg/core/result.h"
#include "libmeg/tokenizer/open_tokenizer.h"
#include "libmeg/tokenizer/tokenizer_identity.h"

namespace meg {

/// What Megatron at `version` calls the tokenizer of these flags. legacy_tokenizer: the short class
/// names also where the revision has new ones (--legacy-tokenizer of core 0.15 and 0.16).
/// kInvalidArgument where a file that the tokenizer type needs is not named, and where the revision
/// builds no index caches with that type; else what lacking_tokenizer_type gives.
Result<TokenizerIdentity> identify_tokenizer(const TokenizerOptions& options,
                                             const MegatronVersion& version, bool legacy_tokenizer);

}  // namespace meg
