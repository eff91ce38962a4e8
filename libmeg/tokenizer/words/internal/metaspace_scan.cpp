#include "libmeg/tokenizer/words/internal/metaspace_scan.h"

#include <algorithm>
#include <string_view>

namespace meg::tokenizer {
namespace {

size_t scan(fast::WordScan& scan, uint32_t* starts, bool runs) {
  const std::string_view text(scan.position, static_cast<size_t>(scan.end - scan.position));
  size_t count = 0;
  size_t at = 0;
  while (at < text.size() && count < fast::kScanBytes) {
    starts[count++] = static_cast<uint32_t>(at);
    size_t behind = at + 1;
    if (runs) {
      behind = at;
      while (text.substr(behind).starts_with(kSpaceSymbol)) behind += kSpaceSymbol.size();
      behind = std::max(behind, at + 1);
    }
    at = std::min(text.find(kSpaceSymbol, behind), text.size());
  }
  scan.position += at;
  return count;
}

}  // namespace

size_t scan_one_word(fast::WordScan& words, uint32_t* starts) {
  starts[0] = 0;
  words.position = words.end;
  return 1;
}

size_t scan_metaspace_each(fast::WordScan& words, uint32_t* starts) {
  return scan(words, starts, false);
}

size_t scan_metaspace_runs(fast::WordScan& words, uint32_t* starts) {
  return scan(words, starts, true);
}

}  // namespace meg::tokenizer
