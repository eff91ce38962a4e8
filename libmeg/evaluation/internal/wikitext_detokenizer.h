#pragma once

#include <string>

namespace meg::evaluation {

/// WikiText's tokens as running text: spaces beside punctuation, brackets, quotes and headings go,
/// "@-@" becomes "-". text: UTF-8.
/// Mirrors Megatron-LM tasks/zeroshot_gpt/detokenizer.py: wikitext_detokenizer, with what its
/// patterns really match.
std::string detokenize_wikitext(std::string text);

}  // namespace meg::evaluation
