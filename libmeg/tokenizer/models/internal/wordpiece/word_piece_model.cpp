#include "libmeg/tokenizer/models/internal/wordpiece/word_piece_model.h"

#include <utility>

namespace meg::tokenizer::wordpiece {

WordPieceModel::WordPieceModel(const std::vector<PieceTrie::Entry>& tokens, const Limits& limits)
    : limits_(limits) {
  std::vector<PieceTrie::Entry> beginnings, continuations;
  for (auto [text, id] : tokens) {
    if (!text.empty()) beginnings.emplace_back(text, id);
    // It is a beginning, too: a word of the text may itself start with `##`.
    if (!text.starts_with(limits.continuation)) continue;
    text.remove_prefix(limits.continuation.size());
    if (!text.empty()) continuations.emplace_back(text, id);
  }
  beginnings_ = PieceTrie(std::move(beginnings));
  continuations_ = PieceTrie(std::move(continuations));
}

bool WordPieceModel::can_cut(std::string_view word) const {
  const PieceTrie* trie = &beginnings_;
  while (!word.empty()) {
    const size_t size = trie->longest_prefix(word, INT_MAX);
    if (size == 0) return false;
    word.remove_prefix(size);
    trie = &continuations_;
  }
  return true;
}

}  // namespace meg::tokenizer::wordpiece
