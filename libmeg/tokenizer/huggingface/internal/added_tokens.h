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
  std::string matched;  ///< What is looked for and decoded: content, normalized if need be.
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

  /// tokens: of distinct texts to look for, none empty.
  explicit AddedTokenFinder(std::vector<AddedToken> tokens);

  bool empty() const { return tokens_.empty(); }

  struct Match {
    size_t begin = 0, end = 0;  // of the text that the token takes
    size_t next = 0;            // where its own characters end, behind which the next may begin
    int32_t id = 0;
  };

  /// Replaces a match in text (valid UTF-8) by the next one; false where there is none. match: as
  /// this left it, before the first call Match(). The next one may begin in whitespace that the
  /// last one took, and then end before it.
  bool find_next(std::string_view text, Match& match) const;

 private:
  const AddedToken* longest_at(std::string_view text) const;

  std::vector<AddedToken> tokens_;                  // the longest first
  std::array<std::vector<uint32_t>, 256> by_byte_;  // tokens that begin with a byte
  std::string first_bytes_;
};

}  // namespace meg::tokenizer
