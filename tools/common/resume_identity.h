#pragma once

#include <string>
#include <utility>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/megatron/argument_values.h"
#include "tools/common/flags/flags.h"

namespace meg::tools {

using Identity = std::vector<std::pair<std::string, std::string>>;

/// Names and values of all that the tokenizer's flags say, with digests of the files they name:
/// for `resume_identity`.
Result<Identity> tokenizer_identity(const megatron::ArgumentValues& args);

/// Names and values of those of the tokenizer's flags that name no file: for
/// PreprocessOptions::shard_settings.
Identity tokenizer_settings(const megatron::ArgumentValues& args);

/// Names and values of all flags but those that decide neither the output nor what is said of it.
Identity flag_identity(const Flags& flags);

/// Appends digests of `path`, or of the files of a folder that a tokenizer or sentence model may be
/// made of.
Status add_file_identities(const std::string& path, Identity& identity);

}  // namespace meg::tools
