#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/tokenizer/models/internal/piece_trie.h"
#include "libmeg/tokenizer/words/internal/first_bytes.h"

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
    int32_t id = 0;
  };

  class Search;

 private:
  std::vector<AddedToken> tokens_;
  PieceTrie texts_;  // of tokens_, by number
  FirstBytes first_bytes_;
  bool splits_special_tokens_ = false;
};

/// The search through one text, valid UTF-8, which must outlive it, as must the finder.
class AddedTokenFinder::Search {
 public:
  Search(const AddedTokenFinder& finder, std::string_view text)
      : finder_(finder), text_(text), candidates_(finder.first_bytes_, text) {}

  /// The next match; nullopt if there is none. It may begin inside whitespace that the last one
  /// included, and then end before it.
  std::optional<Match> next();

 private:
  const AddedToken* longest_at(size_t at) const;

  const AddedTokenFinder& finder_;
  const std::string_view text_;
  FirstByteSearch candidates_;
  size_t at_ = 0;         // where the last token's own characters end
  size_t taken_end_ = 0;  // and the whitespace that it includes
};

}  // namespace meg::tokenizer
