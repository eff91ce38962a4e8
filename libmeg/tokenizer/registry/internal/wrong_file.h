#pragma once

#include "libmeg/base/status.h"
#include "libmeg/tokenizer/registry/internal/tokenizer_type.h"

namespace meg::tokenizer {

/// Why a tokenizer could not be opened. Where one of its files is that of another type, or is meant
/// for another flag, the error says what the file is and which type reads it; also of a folder that
/// holds files of another type alone. Every other error stays as it is.
Status explain_wrong_file(const TokenizerType& type, const TokenizerOptions& options,
                          const Status& error);

}  // namespace meg::tokenizer
