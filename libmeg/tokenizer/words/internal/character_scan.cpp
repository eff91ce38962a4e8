#include "libmeg/tokenizer/words/internal/character_scan.h"

namespace meg::tokenizer {

CharacterScan character_scan(InstructionSet set) {
#if defined(__x86_64__)
  if (set == InstructionSet::kAvx512) return scan_characters_avx512;
  if (set == InstructionSet::kAvx2) return scan_characters_avx2;
#else
  static_cast<void>(set);
#endif
  return scan_characters_portable;
}

}  // namespace meg::tokenizer
