#include "libmeg/tokenizer/words/internal/metaspace_scan.h"

#include <algorithm>
#include <string_view>
#include <vector>

namespace meg::tokenizer {
namespace {

constexpr std::string_view kSpace = "\xE2\x96\x81";

size_t scan(fast::WordScan& scan, uint32_t* starts, bool runs) {
  const std::string_view text(scan.position, static_cast<size_t>(scan.end - scan.position));
  size_t count = 0;
  size_t at = 0;
  while (at < text.size() && count < fast::kScanBytes) {
    starts[count++] = static_cast<uint32_t>(at);
    size_t behind = at + 1;
    if (runs) {
      behind = at;
      while (text.substr(behind).starts_with(kSpace)) behind += kSpace.size();
      behind = std::max(behind, at + 1);
    }
    at = std::min(text.find(kSpace, behind), text.size());
  }
  scan.position += at;
  return count;
}

}  // namespace

size_t scan_metaspace_each(fast::WordScan& words, uint32_t* starts) {
  return scan(words, starts, false);
}

size_t scan_metaspace_runs(fast::WordScan& words, uint32_t* starts) {
  return scan(words, starts, true);
}

/// Cutting in front of each space symbol changes nothing as long as no merge joins text before the
/// symbol with the symbol: then no word's result depends on the words around it, and words can be
/// remembered one by one. A model whose space symbol is no piece of its own starts from its bytes,
/// of which merges could cross too.
bool merges_cross_metaspace(const BpeModel& model) {
  std::vector<int32_t> start;
  model.start_pieces(kSpace, start);
  if (start.size() != 1 || model.piece_bytes(start[0]) != kSpace) return true;
  return std::any_of(model.merges().begin(), model.merges().end(), [&](const auto& merge) {
    return model.piece_bytes(merge.right).starts_with(kSpace) &&
           !model.piece_bytes(merge.left).ends_with(kSpace);
  });
}

}  // namespace meg::tokenizer
