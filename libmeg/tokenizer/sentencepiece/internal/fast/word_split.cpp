#include "libmeg/tokenizer/sentencepiece/internal/fast/word_split.h"

#include <algorithm>

namespace meg::tokenizer::sentencepiece::fast {

WordSplit::WordSplit(const std::vector<std::string>& pieces)
    : joints_(std::vector<std::string_view>(pieces.begin(), pieces.end())) {
  for (const std::string& piece : pieces) {
    for (size_t i = 1; i < piece.size(); ++i) {
      const auto left = static_cast<unsigned char>(piece[i - 1]);
      const auto right = static_cast<unsigned char>(piece[i]);
      joined_[kind(left)][kind(right)] = true;
      if (left != ' ' && right == ' ') cuts_before_spaces_ = false;
      if (left == ' ' && right != ' ') cuts_after_spaces_ = false;
    }
  }
}

SplitScanner split_scanner(InstructionSet set) {
#if defined(__x86_64__)
  if (set == InstructionSet::kAvx512) return scan_split_avx512;
  if (set == InstructionSet::kAvx2) return scan_split_avx2;
#else
  static_cast<void>(set);
#endif
  return scan_split_portable;
}

}  // namespace meg::tokenizer::sentencepiece::fast
