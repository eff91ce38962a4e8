#pragma once

#include <string>
#include <utility>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/megatron/argument_values.h"

namespace meg::tools {

/// Names and values of all that the tokenizer's flags say, with digests of the files they name:
/// for PreprocessOptions::resume_identity.
Result<std::vector<std::pair<std::string, std::string>>> tokenizer_identity(
    const megatron::ArgumentValues& args);

/// Names and values of those of the tokenizer's flags that name no file: for
/// PreprocessOptions::shard_settings.
std::vector<std::pair<std::string, std::string>> tokenizer_settings(
    const megatron::ArgumentValues& args);

/// Appends digests of `path`, or of the files of a folder that a tokenizer or sentence model may be
/// made of.
Status add_file_identities(const std::string& path,
                           std::vector<std::pair<std::string, std::string>>& identity);

}  // namespace meg::tools
