#include "libmeg/tokenizer/words/internal/vector_functions.h"

namespace meg::tokenizer::fast {

const VectorFunctions& vector_functions(InstructionSet set) {
#if defined(__x86_64__)
  if (set == InstructionSet::kAvx512) return kAvx512Functions;
  if (set == InstructionSet::kAvx2) return kAvx2Functions;
#else
  static_cast<void>(set);
#endif
  return kPortableFunctions;
}

}  // namespace meg::tokenizer::fast
