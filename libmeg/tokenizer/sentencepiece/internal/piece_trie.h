#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

namespace meg::tokenizer::sentencepiece {

/// Texts and a value for each, for walks byte by byte. Immutable.
class PieceTrie {
 public:
  using Entry = std::pair<std::string_view, int32_t>;

  static constexpr uint32_t kNoNode = UINT32_MAX;
  static constexpr int32_t kNoValue = -1;

  PieceTrie() : PieceTrie(std::vector<Entry>()) {}

  /// entries: texts that differ and are not empty; values are 0 or above.
  explicit PieceTrie(std::vector<Entry> entries);

  bool empty() const { return nodes_.size() == 1; }

  /// The node after the first byte of a text, or after one more byte; kNoNode if no text of the
  /// trie begins with it.
  uint32_t first(unsigned char byte) const { return roots_[byte]; }

  uint32_t next(uint32_t node, unsigned char byte) const {
    const Node& from = nodes_[node];
    const unsigned char* const labels = &labels_[from.children];
    if (from.count > kFewChildren) {
      const void* const found = std::memchr(labels, byte, from.count);
      if (found == nullptr) return kNoNode;
      return static_cast<uint32_t>(static_cast<const unsigned char*>(found) - labels_.data());
    }
    for (uint32_t i = 0; i < from.count; ++i) {
      if (labels[i] == byte) return from.children + i;
    }
    return kNoNode;
  }

  /// The value of the text that ends at the node, or kNoValue.
  int32_t value(uint32_t node) const { return nodes_[node].value; }

  /// Bytes of the longest of the trie's texts with which `text` begins, among the shortest `limit`
  /// of those; 0 if there is none. value: receives its value.
  size_t longest_prefix(std::string_view text, int limit, int32_t* value = nullptr) const;

 private:
  /// Looked at one by one: quicker than a call.
  static constexpr uint32_t kFewChildren = 6;

  struct Node {
    uint32_t children = 0;  // the first; a node's children stand together
    uint32_t count = 0;
    int32_t value = kNoValue;
  };

  std::vector<Node> nodes_;
  std::vector<unsigned char> labels_;  // the byte that leads to each node
  std::array<uint32_t, 256> roots_;
};

}  // namespace meg::tokenizer::sentencepiece
