#include "libmeg/tokenizer/models/internal/sentencepiece/reference/viterbi.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "libmeg/text/utf8.h"
#include "libmeg/tokenizer/models/internal/sentencepiece/unigram_scores.h"

namespace meg::tokenizer::sentencepiece::reference {

namespace {

/// The best way to the end of a part of the text.
struct Best {
  float score = 0;
  std::optional<size_t> start;  // of its last segment
  int32_t id = Segment::kUnknown;
};

void offer(Best& best, float score, size_t start, int32_t id) {
  if (best.start && !(score > best.score)) return;
  best = {score, start, id};
}

}  // namespace

std::vector<Segment> viterbi(const Model& model, std::string_view normalized) {
  const float unknown_score = score_of_unknown(model.pieces());
  std::vector<Best> best(normalized.size() + 1);
  size_t size = 0;
  for (size_t start = 0; start < normalized.size(); start += size) {
    // The library's own rebasing of its float sums, at the same places: it decides between
    // segmentations that are about as good (fast/unigram.cpp).
    if (std::abs(best[start].score) > kScoreLimit) {
      const float offset = best[start].score;
      for (size_t i = start; i < best.size(); ++i) {
        if (i == start || best[i].start) best[i].score -= offset;
      }
    }
    size = text::character_size(normalized[start]);
    bool has_character = false;
    const size_t last = std::min(normalized.size(), start + model.longest_piece());
    for (size_t end = start + 1; end <= last; ++end) {
      const std::optional<int32_t> id = model.find_ordinary(normalized.substr(start, end - start));
      if (!id || !is_used(model.pieces()[static_cast<size_t>(*id)])) continue;
      const float score = score_of(model.pieces()[static_cast<size_t>(*id)]);
      offer(best[end], score + best[start].score, start, *id);
      has_character |= end == start + size;
    }
    if (has_character) continue;
    offer(best[start + size], unknown_score + best[start].score, start, Segment::kUnknown);
  }
  std::vector<Segment> found;
  for (size_t end = normalized.size(); end > 0; end = *best[end].start) {
    const size_t start = *best[end].start;
    found.push_back({normalized.substr(start, end - start), best[end].id});
  }
  std::reverse(found.begin(), found.end());
  return found;
}

}  // namespace meg::tokenizer::sentencepiece::reference
