#include "libmeg/tokenizer/words/internal/word_split.h"

#include "libmeg/tokenizer/words/internal/metaspace_scan.h"

namespace meg::tokenizer::fast {

WordSplit::WordSplit(const std::vector<std::string_view>& pieces, SpaceMark mark)
    : mark_(mark), boundaries_(pieces) {
  const std::string_view space = mark == SpaceMark::kSpace ? " " : kSpaceSymbol;
  for (const std::string_view piece : pieces) {
    for (size_t i = 1; i < piece.size(); ++i) {
      const bool after_mark = piece.substr(0, i).ends_with(space);
      const bool before_mark = piece.substr(i).starts_with(space);
      if (before_mark) {
        (after_mark ? cuts_between_marks_ : cuts_before_marks_) = false;
      } else if (after_mark) {
        cuts_after_marks_ = false;
      } else {
        const auto left = static_cast<unsigned char>(piece[i - 1]);
        const auto right = static_cast<unsigned char>(piece[i]);
        joined_[kind(left)][kind(right)] = true;
      }
    }
  }
}

}  // namespace meg::tokenizer::fast
