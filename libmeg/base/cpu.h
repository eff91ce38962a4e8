#pragma once

#include <string_view>

namespace meg {

/// Instruction sets that hot loops have a version for, weakest first.
enum class InstructionSet {
  kPortable,
  kAvx2,    ///< AVX2, BMI1, BMI2 and F16C
  kAvx512,  ///< AVX-512 F, BW, DQ, VL, VBMI and VBMI2, and kAvx2's
};

/// The strongest set that this CPU and operating system support. The environment variable
/// MEG_INSTRUCTION_SET (portable, avx2, avx512) can lower it, for tests.
InstructionSet best_instruction_set();

/// "portable", "avx2" or "avx512".
std::string_view instruction_set_name(InstructionSet set);

}  // namespace meg
