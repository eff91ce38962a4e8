#pragma once

#include "libmeg/base/cpu.h"
#include "libmeg/text/text_padding.h"

namespace meg::text {

/// The loops over the bytes of JSON strings. All of them need kTextPadding readable bytes at `end`,
/// of any value. Each instruction set has its version; the results do not depend on it.
struct StringKernels {
  /// The first `"`, `\` or control character (below 0x20) from `at` on; `end` or more where
  /// there is none.
  const char* (*find_special)(const char* at, const char* end);

  /// Copies a string's text, without its escapes, to `out` up to the closing quote, where `at` is
  /// left. `out` needs room for end - at + kTextPadding bytes. False if the string is not valid or
  /// has a lone surrogate.
  bool (*unescape)(const char*& at, const char* end, char*& out);
};

/// set: one that this processor runs.
const StringKernels& string_kernels(InstructionSet set);

}  // namespace meg::text
