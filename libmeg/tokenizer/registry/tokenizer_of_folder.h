#pragma once

#include <optional>
#include <string>

#include "libmeg/base/result.h"
#include "libmeg/tokenizer/interface/tokenizer_options.h"

namespace meg::tokenizer {

/// The tokenizer whose files a folder of a Hugging Face model holds: HuggingFaceTokenizer of a
/// tokenizer.json; without one, GPT2BPETokenizer of vocab.json and merges.txt where
/// tokenizer_config.json or config.json names GPT-2's class, Llama2Tokenizer of tokenizer.model
/// where they name Llama's. nullopt: none of these files is there. kUnsupported, naming the reason,
/// where no type of Megatron gives the ids that transformers gives with these files, apart from
/// Llama's token that begins a text; also the errors of reading them.
Result<std::optional<TokenizerOptions>> tokenizer_of_folder(const std::string& folder);

}  // namespace meg::tokenizer
