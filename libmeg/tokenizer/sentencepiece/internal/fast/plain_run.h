#pragma once

#include <cstddef>

#include "libmeg/base/cpu.h"
#include "libmeg/tokenizer/sentencepiece/internal/fast/plain_characters.h"

namespace meg::tokenizer::sentencepiece::fast {

/// Bytes of the first characters of a text that stay as they are, as far as 64 bytes decide that;
/// perhaps fewer, and 0 does not say that there are none. 64 bytes from `end` on must be readable.
/// collapses: ends before a space that follows another one, or `at` if after_space.
using PlainRun = size_t (*)(const PlainCharacters& plain, const char* at, const char* end,
                            bool collapses, bool after_space);

size_t plain_run_portable(const PlainCharacters& plain, const char* at, const char* end,
                          bool collapses, bool after_space);
size_t plain_run_avx2(const PlainCharacters& plain, const char* at, const char* end, bool collapses,
                      bool after_space);
size_t plain_run_avx512(const PlainCharacters& plain, const char* at, const char* end,
                        bool collapses, bool after_space);

/// On processors other than x86-64 always the portable one.
PlainRun plain_run(InstructionSet set);

}  // namespace meg::tokenizer::sentencepiece::fast
