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
  bool lstrip = false;       ///< includes the whitespace before it
  bool rstrip = false;       ///< includes the whitespace after it
};

/// Finds added tokens in texts: the leftmost first, of those the longest. Immutable.
/// Mirrors Hugging Face tokenizers, added_vocabulary.rs: AddedVocabulary.find_matches.
class AddedTokenFinder {
 public:
  AddedTokenFinder() = default;

  /// tokens: of distinct texts to look for, none empty. splits_special_tokens: special tokens are
  /// left in the text, as encode_special_tokens of tokenizers leaves them, but still hide tokens
  /// that overlap them.
  explicit AddedTokenFinder(std::vector<AddedToken> tokens, bool splits_special_tokens = false);

  bool empty() const { return tokens_.empty(); }

  struct Match {
    size_t begin = 0, end = 0;  // of the text that the token takes
    size_t next = 0;            // where its own characters end, after which the next may begin
    int32_t id = 0;
  };

  /// Replaces `match` by the next match in text (valid UTF-8); false if there is none. match: the
  /// result of the previous call, or Match() for the first one. The next match may begin inside
  /// whitespace that the last one included, and then end before it.
  bool find_next(std::string_view text, Match& match) const;

 private:
  const AddedToken* longest_at(std::string_view text) const;

  std::vector<AddedToken> tokens_;  // the longest first
  bool splits_special_tokens_ = false;
  std::array<std::vector<uint32_t>, 256> by_byte_;  // tokens that begin with a byte
  std::string first_bytes_;
};

}  // namespace meg::tokenizer
