#include "libmeg/tokenizer/words/internal/word_scan.h"

namespace meg::tokenizer::fast {

WordScanner word_scanner(InstructionSet set, ClassesOf classes) {
  const bool regex = classes == ClassesOf::kRegex;
#if defined(__x86_64__)
  if (set == InstructionSet::kAvx512) {
    return regex ? scan_words_avx512 : scan_tokenizers_words_avx512;
  }
  if (set == InstructionSet::kAvx2) return regex ? scan_words_avx2 : scan_tokenizers_words_avx2;
#else
  static_cast<void>(set);
#endif
  return regex ? scan_words_portable : scan_tokenizers_words_portable;
}

size_t scan_one_word(WordScan& scan, uint32_t* starts) {
  starts[0] = 0;
  scan.position = scan.end;
  return 1;
}

}  // namespace meg::tokenizer::fast
