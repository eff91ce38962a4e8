#include "libmeg/tokenizer/sentencepiece/internal/piece_trie.h"

#include <algorithm>

namespace meg::tokenizer::sentencepiece {

PieceTrie::PieceTrie(std::vector<Entry> entries) {
  std::sort(entries.begin(), entries.end());

  // The entries below each node, level by level, in the order of the nodes.
  struct Range {
    size_t begin, end, depth;
  };

  std::vector<Range> ranges = {{0, entries.size(), 0}};
  nodes_.emplace_back();
  labels_.push_back(0);
  // Level by level, so that the children of a node follow each other and their labels are one run
  // of bytes.
  for (size_t node = 0; node < nodes_.size(); ++node) {
    auto [at, end, depth] = ranges[node];
    if (at < end && entries[at].first.size() == depth) nodes_[node].value = entries[at++].second;
    nodes_[node].children = static_cast<uint32_t>(nodes_.size());
    while (at < end) {
      const char label = entries[at].first[depth];
      const size_t begin = at;
      while (at < end && entries[at].first[depth] == label) ++at;
      nodes_.emplace_back();
      labels_.push_back(static_cast<unsigned char>(label));
      ranges.push_back({begin, at, depth + 1});
    }
    nodes_[node].count = static_cast<uint32_t>(nodes_.size()) - nodes_[node].children;
  }
  labels_.push_back(0);  // so that a leaf's children have an address
  for (size_t byte = 0; byte < roots_.size(); ++byte) {
    roots_[byte] = next(0, static_cast<unsigned char>(byte));
  }
}

size_t PieceTrie::longest_prefix(std::string_view text, int limit, int32_t* value) const {
  size_t longest = 0;
  uint32_t node = text.empty() ? kNoNode : first(static_cast<unsigned char>(text[0]));
  for (size_t size = 1; node != kNoNode; ++size) {
    if (this->value(node) != kNoValue) {
      longest = size;
      if (value != nullptr) *value = this->value(node);
      if (--limit == 0) break;
    }
    if (size == text.size()) break;
    node = next(node, static_cast<unsigned char>(text[size]));
  }
  return longest;
}

}  // namespace meg::tokenizer::sentencepiece
