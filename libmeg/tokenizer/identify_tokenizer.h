#pragma once

#include "libmeg/base/result.h"
#include "libmeg/megatron/megatron_version.h"
#include "libmeg/megatron/tokenizer_identity.h"
#include "libmeg/tokenizer/open_tokenizer.h"

namespace meg::tokenizer {

/// What Megatron at `version` calls the tokenizer of these flags; options.version is not read.
/// kInvalidArgument where the type is unknown, where a flag that it needs is not given, and where
/// the revision builds no index caches with it; kUnsupported for a type whose names libmeg lacks.
Result<megatron::TokenizerIdentity> identify_tokenizer(const TokenizerOptions& options,
                                                       const megatron::MegatronVersion& version);

}  // namespace meg::tokenizer
