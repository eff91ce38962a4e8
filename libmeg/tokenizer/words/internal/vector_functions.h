#pragma once

#include <array>

#include "libmeg/base/cpu.h"
#include "libmeg/tokenizer/words/internal/character_scan.h"
#include "libmeg/tokenizer/words/internal/copy_plain.h"
#include "libmeg/tokenizer/words/internal/pattern_form.h"
#include "libmeg/tokenizer/words/internal/prefetch_words.h"
#include "libmeg/tokenizer/words/internal/word_scan.h"

namespace meg::tokenizer::fast {

/// The functions that work on 64 bytes at once, compiled for one instruction set.
struct VectorFunctions {
  WordScanner scan_words;  ///< of GPT-2's pattern, with the classes of unicode_class.h
  std::array<WordScanner, kPatterns> scan_pattern;  ///< by KnownPattern::form
  WordScanner scan_split;                           ///< of scan.split, which must be set
  CharacterScan scan_characters;
  CopyPlain copy_plain;
  PrefetchWords prefetch_words;  ///< nullptr where one word at a time is the fastest way
};

// Each in a source file of its own, compiled with the set's flags.
extern const VectorFunctions kPortableFunctions;
extern const VectorFunctions kAvx2Functions;
extern const VectorFunctions kAvx512Functions;

/// On processors other than x86-64 always the portable ones.
const VectorFunctions& vector_functions(InstructionSet set);

}  // namespace meg::tokenizer::fast
