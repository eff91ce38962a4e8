#include "libmeg/tokenizer/bpe/internal/fast/word_scan.h"

namespace meg::tokenizer::fast {

WordScanner word_scanner(InstructionSet set) {
#if defined(__x86_64__)
  if (set == InstructionSet::kAvx512) return scan_words_avx512;
  if (set == InstructionSet::kAvx2) return scan_words_avx2;
#else
  static_cast<void>(set);
#endif
  return scan_words_portable;
}

}  // namespace meg::tokenizer::fast
