#pragma once

#include "libmeg/base/result.h"
#include "libmeg/megatron/megatron_version.h"
#include "libmeg/megatron/tokenizer_identity.h"
#include "libmeg/tokenizer/interface/tokenizer_options.h"

namespace meg::tokenizer {

/// The identity that Megatron at `version` gives to the tokenizer of these flags; options.version
/// is not used. kInvalidArgument if the type is unknown, if a required flag is missing, and if the
/// revision does not build index caches with it; kUnsupported for a type whose names libmeg does
/// not know.
Result<megatron::TokenizerIdentity> identify_tokenizer(const TokenizerOptions& options,
                                                       const megatron::MegatronVersion& version);

}  // namespace meg::tokenizer
