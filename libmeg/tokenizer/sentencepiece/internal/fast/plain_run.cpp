#include "libmeg/tokenizer/sentencepiece/internal/fast/plain_run.h"

namespace meg::tokenizer::sentencepiece::fast {

PlainRun plain_run(InstructionSet set) {
#if defined(__x86_64__)
  if (set == InstructionSet::kAvx512) return plain_run_avx512;
  if (set == InstructionSet::kAvx2) return plain_run_avx2;
#else
  static_cast<void>(set);
#endif
  return plain_run_portable;
}

}  // namespace meg::tokenizer::sentencepiece::fast
