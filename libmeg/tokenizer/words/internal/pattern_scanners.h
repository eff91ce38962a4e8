#pragma once

#include <cstddef>

#include "libmeg/tokenizer/words/internal/word_scan.h"

namespace meg::tokenizer {

// The scanner of kPatternForms[form], compiled for an instruction set.
fast::WordScanner pattern_scanner_portable(size_t form);
fast::WordScanner pattern_scanner_avx2(size_t form);
fast::WordScanner pattern_scanner_avx512(size_t form);

}  // namespace meg::tokenizer
