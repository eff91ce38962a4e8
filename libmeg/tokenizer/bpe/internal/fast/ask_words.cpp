#include "libmeg/tokenizer/bpe/internal/fast/ask_words.h"

namespace meg::tokenizer::fast {

size_t ask_no_words(const char*, const uint32_t*, size_t, const SetTable&, const SetTable&,
                    WordKey<16>*, const void**) {
  return 0;
}

AskWords words_asker(InstructionSet set) {
#if defined(__x86_64__)
  if (set == InstructionSet::kAvx512) return ask_words_avx512;
#else
  static_cast<void>(set);
#endif
  return ask_no_words;
}

}  // namespace meg::tokenizer::fast
