#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "libmeg/base/result.h"
#include "libmeg/tokenizer/interface/tokenizer.h"
#include "libmeg/tokenizer/interface/tokenizer_options.h"

namespace meg::tokenizer {

/// Opens the tokenizer that the flags select. kInvalidArgument for an unknown type or a missing
/// flag, kUnsupported if libmeg does not support the revision's form of a type; also the errors of
/// its files. Mirrors Megatron-LM megatron/tokenizer/tokenizer.py: build_tokenizer.
Result<std::unique_ptr<Tokenizer>> open_tokenizer(const TokenizerOptions& options);

/// The padding token that the revision's class tells a GPTDataset; nullopt where it tells none,
/// although the files may name one. tokenizer: opened with these options.
std::optional<int32_t> pad_of_datasets(const Tokenizer& tokenizer, const TokenizerOptions& options);

/// Whether the flags name a tokenizer: a type that libmeg has, with every flag that it needs.
bool names_tokenizer(const TokenizerOptions& options);

}  // namespace meg::tokenizer
