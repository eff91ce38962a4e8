#pragma once

#include <optional>
#include <span>
#include <string>

#include "libmeg/dataset/dataset_tokenizer.h"
#include "libmeg/tokenizer/interface/tokenizer.h"
#include "libmeg/tokenizer/interface/tokenizer_options.h"
#include "tools/common/flags/flags.h"

namespace meg::tools {

/// The defaults of the tokenizer flags.
tokenizer::TokenizerOptions default_tokenizer();

/// The content of the file beside a dataset for a tokenizer; nullopt for one without identity.
std::optional<dataset::DatasetTokenizer> dataset_tokenizer(
    const tokenizer::TokenizerOptions& options, const tokenizer::Tokenizer& tokenizer);

/// kInvalidArgument, naming both, where a dataset was made with another tokenizer than the one of
/// the options, which is opened only where a dataset says what it was made with; nothing is
/// compared where the options name none. prefixes: of datasets.
Status check_dataset_tokenizers(std::span<const std::string> prefixes,
                                const tokenizer::TokenizerOptions& options);

}  // namespace meg::tools
