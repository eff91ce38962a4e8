#include "libmeg/base/cpu.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace meg {
namespace {

#if defined(__x86_64__)
// clang 14's __builtin_cpu_supports does not know f16c.
bool supports_f16c() {
  unsigned int a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
#endif

InstructionSet detect() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
                    __builtin_cpu_supports("bmi2") && supports_f16c();
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2");
  // A set means all of its parts: code that is compiled for AVX-512 uses kAvx2's instructions too.
  if (avx2 && avx512) return InstructionSet::kAvx512;
  if (avx2) return InstructionSet::kAvx2;
#endif
  return InstructionSet::kPortable;
}

/// The limit of MEG_INSTRUCTION_SET. It may exceed what the processor has, because
/// best_instruction_set() takes the lesser of the two. A word that is not known limits nothing.
InstructionSet limit() {
  const char* wanted = std::getenv("MEG_INSTRUCTION_SET");
  if (wanted != nullptr) {
    for (const auto set : {InstructionSet::kPortable, InstructionSet::kAvx2}) {
      if (instruction_set_name(set) == wanted) return set;
    }
  }
  return InstructionSet::kAvx512;
}

}  // namespace

InstructionSet best_instruction_set() {
  static const InstructionSet best = std::min(detect(), limit());
  return best;
}

std::string_view instruction_set_name(InstructionSet set) {
  switch (set) {
    case InstructionSet::kPortable:
      return "portable";
    case InstructionSet::kAvx2:
      return "avx2";
    case InstructionSet::kAvx512:
      return "avx512";
  }
  return "unknown";
}

}  // namespace meg
