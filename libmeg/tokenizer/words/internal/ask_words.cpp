#include "libmeg/tokenizer/words/internal/ask_words.h"

namespace meg::tokenizer::fast {

AskWords words_asker(InstructionSet set) {
#if defined(__x86_64__)
  if (set == InstructionSet::kAvx512) return ask_words_avx512;
#else
  static_cast<void>(set);
#endif
  return nullptr;
}

}  // namespace meg::tokenizer::fast
