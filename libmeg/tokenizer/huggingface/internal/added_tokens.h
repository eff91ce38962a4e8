#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace meg::tokenizer {

/// A token that is cut out of the text before the model sees it.
struct AddedToken {
  std::string content;
  int32_t id = 0;
  bool special = false;
  bool normalized = false;   ///< looked for in the normalized text
  bool single_word = false;  ///< not next to a letter, digit or underscore
  bool lstrip = false;       ///< takes the whitespace in front
  bool rstrip = false;       ///< takes the whitespace behind
};

/// Finds added tokens in texts: the leftmost first, of those the longest. Immutable.
/// Mirrors Hugging Face tokenizers, added_vocabulary.rs: AddedVocabulary.find_matches.
class AddedTokenFinder {
 public:
  AddedTokenFinder() = default;

  /// tokens: with distinct contents, none empty.
  explicit AddedTokenFinder(std::vector<AddedToken> tokens);

  bool empty() const { return tokens_.empty(); }

  struct Match {
    size_t begin = 0, end = 0;  // of the text that the token takes
    int32_t id = 0;
  };

  /// The first match in text (valid UTF-8) that begins at `from` or behind it; false where there is
  /// none. from: the end of the match before, or 0.
  bool find(std::string_view text, size_t from, Match& match) const;

 private:
  const AddedToken* longest_at(std::string_view text) const;

  std::vector<AddedToken> tokens_;                  // the longest first
  std::array<std::vector<uint32_t>, 256> by_byte_;  // tokens that begin with a byte
  std::string first_bytes_;
};

}  // namespace meg::tokenizer
