#include "libmeg/tokenizer/models/internal/sentencepiece/fast/copy_plain.h"

namespace meg::tokenizer::sentencepiece::fast {

CopyPlain plain_copier(InstructionSet set) {
#if defined(__x86_64__)
  if (set == InstructionSet::kAvx512) return copy_plain_avx512;
  if (set == InstructionSet::kAvx2) return copy_plain_avx2;
#else
  static_cast<void>(set);
#endif
  return copy_plain_portable;
}

}  // namespace meg::tokenizer::sentencepiece::fast
