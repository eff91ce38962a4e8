#include "libmeg/model/hybrid_pattern.h"

#include <numeric>

#include "libmeg/text/printable.h"

namespace meg::model {

int64_t HybridPattern::num_layers() const {
  return std::accumulate(segments.begin(), segments.end(), int64_t{0});
}

Result<HybridPattern> parse_hybrid_pattern(std::string_view text) {
  const bool has_experts = text.find('E') != text.npos;
  HybridPattern pattern{.segments = {0}, .has_experts = has_experts};
  const std::string_view pair = has_experts ? "*E" : "*-";
  for (std::string_view rest = text; !rest.empty();) {
    if (rest.starts_with(pair)) {
      ++pattern.segments.back();
      rest.remove_prefix(pair.size());
    } else if (rest.starts_with('|')) {
      pattern.segments.push_back(0);
      rest.remove_prefix(1);
    } else {
      pattern.segments.clear();
      break;
    }
  }
  if (pattern.num_layers() > 0) return pattern;
  return make_error(StatusCode::kUnsupported,
                    "expected alternating attention and MLP, as in *-*- or *E*E, for the layers of "
                    "a GPT model, found {}",
                    text::printable(text));
}

std::string hybrid_pattern_text(const HybridPattern& pattern) {
  std::string text;
  for (size_t i = 0; i < pattern.segments.size(); ++i) {
    if (i > 0) text += '|';
    for (int64_t n = 0; n < pattern.segments[i]; ++n) text += pattern.has_experts ? "*E" : "*-";
  }
  return text;
}

}  // namespace meg::model
