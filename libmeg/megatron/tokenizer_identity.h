#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace meg::megatron {

/// The identity of a tokenizer in the descriptions of index caches. Mirrors Megatron-LM
/// megatron/core/datasets/megatron_tokenizer.py: MegatronTokenizer, and
/// megatron/core/tokenizers/text/text_tokenizer.py: unique_identifiers.
struct TokenizerIdentity {
  /// Python's None, a path, or a list of paths and Nones.
  using Path = std::variant<std::monostate, std::string, std::vector<std::optional<std::string>>>;

  std::string class_name;
  Path tokenizer_path;
  std::vector<std::pair<std::string, std::string>> options;  ///< As Python's str() gives them.
};

}  // namespace meg::megatron
