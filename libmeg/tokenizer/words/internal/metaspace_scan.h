#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "libmeg/tokenizer/words/internal/word_scan.h"

namespace meg::tokenizer {

/// U+2581, which stands for a space in pieces and in normalized texts.
inline constexpr std::string_view kSpaceSymbol = "\xE2\x96\x81";

/// The whole text is one word: for texts that were split before.
size_t scan_one_word(fast::WordScan& scan, uint32_t* starts);

/// A word begins at each kSpaceSymbol.
size_t scan_metaspace_each(fast::WordScan& scan, uint32_t* starts);

/// A word begins at each run of them.
size_t scan_metaspace_runs(fast::WordScan& scan, uint32_t* starts);

}  // namespace meg::tokenizer
