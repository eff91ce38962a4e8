#pragma once

#include <climits>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/tokenizer/models/internal/piece_trie.h"

namespace meg::tokenizer::wordpiece {

/// Cuts a word into the longest pieces of a vocabulary, from left to right. Immutable; made of any
/// file's tokens.
class WordPieceModel {
 public:
  struct Limits {
    int32_t unknown_id;
    size_t max_characters;  ///< A longer word is unknown.
    std::string continuation = "##";
  };

  /// tokens: UTF-8, and the id of each; texts differ.
  WordPieceModel(const std::vector<PieceTrie::Entry>& tokens, const Limits& limits);

  /// Passes each id of a word to take(int32_t), or the unknown one if the word cannot be divided
  /// into pieces. characters: those of the word, which must not be empty.
  template <class Take>
  void segment(std::string_view word, size_t characters, const Take& take) const {
    if (characters > limits_.max_characters || !can_cut(word)) return take(limits_.unknown_id);
    const PieceTrie* trie = &beginnings_;
    while (!word.empty()) {
      int32_t id = 0;
      word.remove_prefix(trie->longest_prefix(word, INT_MAX, &id));
      take(id);
      trie = &continuations_;
    }
  }

 private:
  bool can_cut(std::string_view word) const;

  Limits limits_;
  PieceTrie beginnings_;
  PieceTrie continuations_;  // without their mark
};

}  // namespace meg::tokenizer::wordpiece
