#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace meg::tokenizer::wordpiece::reference {

/// The words of a text that BERT cuts into pieces, step by step.
/// Mirrors Megatron-LM megatron/tokenizer/bert_tokenization.py: BasicTokenizer.
std::vector<std::u32string> basic_words(std::string_view text, bool lower_case);

}  // namespace meg::tokenizer::wordpiece::reference
