#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace meg::tokenizer {

/// Texts and a value for each, for walks byte by byte. Immutable.
///
/// A double array: the children of a node stand at its `children` XOR the byte that leads to each,
/// so that a step is one place in memory. No two nodes share `children`, so that a label at such a
/// place belongs to the node's own child.
class PieceTrie {
 public:
  using Entry = std::pair<std::string_view, int32_t>;

  static constexpr uint32_t kNoNode = UINT32_MAX;
  static constexpr int32_t kNoValue = -1;

  PieceTrie() : PieceTrie(std::vector<Entry>()) {}

  /// entries: texts that differ and are not empty; values are 0 or above.
  explicit PieceTrie(std::vector<Entry> entries);

  bool empty() const { return units_[kRoot].children == kNoChildren; }

  /// The node after the first byte of a text, or after one more byte; kNoNode if no text of the
  /// trie begins with it.
  uint32_t first(unsigned char byte) const { return next(kRoot, byte); }

  uint32_t next(uint32_t node, unsigned char byte) const {
    const uint32_t child = units_[node].children ^ byte;
    return units_[child].label == byte ? child : kNoNode;
  }

  /// The value of the text that ends at the node, or kNoValue.
  int32_t value(uint32_t node) const { return units_[node].value; }

  /// Bytes of the longest of the trie's texts with which `text` begins, among the shortest `limit`
  /// of those; 0 if there is none. value: receives its value.
  size_t longest_prefix(std::string_view text, int limit, int32_t* value = nullptr) const;

 private:
  class Builder;

  static constexpr uint32_t kBlock = 256;  // units; a node's children stand in one block
  static constexpr uint32_t kNoChildren = 0;
  static constexpr uint32_t kRoot = kBlock;  // after a block without nodes, which kNoChildren names
  static constexpr uint16_t kNoLabel = UINT16_MAX;

  struct Unit {
    uint32_t children = kNoChildren;
    int32_t value = kNoValue;
    uint16_t label = kNoLabel;  // the byte that leads to the node
  };

  std::vector<Unit> units_;
};

}  // namespace meg::tokenizer
