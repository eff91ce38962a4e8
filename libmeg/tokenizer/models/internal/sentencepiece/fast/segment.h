#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

namespace meg::tokenizer::sentencepiece::fast {

/// A part of a word that is one piece, or unknown.
struct Segment {
  static constexpr int32_t kUnknown = -1;

  int32_t id;
  uint32_t size;  ///< bytes in SpaceForm
};

inline bool any_unknown(std::span<const Segment> segments) {
  return std::any_of(segments.begin(), segments.end(),
                     [](const Segment& segment) { return segment.id == Segment::kUnknown; });
}

}  // namespace meg::tokenizer::sentencepiece::fast
