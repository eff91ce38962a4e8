#include "libmeg/tokenizer/models/internal/piece_trie.h"

#include <algorithm>
#include <array>
#include <bit>
#include <span>

namespace meg::tokenizer {
namespace {

/// A bit for each unit of a block, or for each place that children may have in it.
class BlockBits {
 public:
  void set(uint32_t bit) { words_[bit / 64] |= uint64_t{1} << (bit % 64); }

  void clear(uint32_t bit) { words_[bit / 64] &= ~(uint64_t{1} << (bit % 64)); }

  static BlockBits all() {
    BlockBits bits;
    bits.words_.fill(~uint64_t{0});
    return bits;
  }

  /// Bit i is bit i ^ byte of this.
  BlockBits exchanged(uint32_t byte) const {
    // Those whose number has the bit 1 << k, in a word of 64.
    constexpr std::array<uint64_t, 6> kHigh = {0xaaaaaaaaaaaaaaaau, 0xccccccccccccccccu,
                                               0xf0f0f0f0f0f0f0f0u, 0xff00ff00ff00ff00u,
                                               0xffff0000ffff0000u, 0xffffffff00000000u};
    BlockBits result;
    for (uint32_t i = 0; i < words_.size(); ++i) {
      uint64_t word = words_[i ^ byte / 64];
      for (uint32_t k = 0; k < kHigh.size(); ++k) {
        if ((byte >> k & 1) == 0) continue;
        word = (word & kHigh[k]) >> (1U << k) | (word & ~kHigh[k]) << (1U << k);
      }
      result.words_[i] = word;
    }
    return result;
  }

  BlockBits& operator&=(const BlockBits& other) {
    for (size_t i = 0; i < words_.size(); ++i) words_[i] &= other.words_[i];
    return *this;
  }

  bool any() const {
    return std::any_of(words_.begin(), words_.end(), [](uint64_t word) { return word != 0; });
  }

  /// Of any().
  uint32_t lowest() const {
    uint32_t i = 0;
    while (words_[i] == 0) ++i;
    return 64 * i + static_cast<uint32_t>(std::countr_zero(words_[i]));
  }

 private:
  std::array<uint64_t, 4> words_{};
};

}  // namespace

/// Finds places for nodes.
class PieceTrie::Builder {
 public:
  explicit Builder(std::vector<Unit>& units) : units_(units) {
    units_.resize(kBlock);
    add_block();
    blocks_[0].free.clear(0);  // the root
  }

  /// Places the children that bytes lead to; what they are combined with.
  uint32_t place(std::span<const unsigned char> bytes) {
    for (size_t i = blocks_.size(); i > 0; --i) {
      if (blocks_.size() - i == kTried) break;
      if (const auto found = place_in(blocks_[i - 1], bytes)) return found;
    }
    add_block();
    return place_in(blocks_.back(), bytes);
  }

 private:
  struct Block {
    uint32_t begin;
    BlockBits free = BlockBits::all();
    BlockBits children = BlockBits::all();  // that no node has
  };

  static constexpr size_t kTried = 8;  // blocks, the last ones

  void add_block() {
    blocks_.push_back({static_cast<uint32_t>(units_.size())});
    units_.resize(units_.size() + kBlock);
  }

  uint32_t place_in(Block& block, std::span<const unsigned char> bytes) {
    BlockBits places = block.children;
    for (const unsigned char byte : bytes) places &= block.free.exchanged(byte);
    if (!places.any()) return kNoChildren;
    const uint32_t place = places.lowest();
    block.children.clear(place);
    for (const unsigned char byte : bytes) {
      block.free.clear(place ^ byte);
      units_[block.begin + (place ^ byte)].label = byte;
    }
    return block.begin + place;
  }

  std::vector<Unit>& units_;
  std::vector<Block> blocks_;
};

PieceTrie::PieceTrie(std::vector<Entry> entries) {
  std::sort(entries.begin(), entries.end());
  Builder builder(units_);

  // The entries below each node, level by level, so that what walks meet most is close together.
  struct Range {
    size_t begin, end, depth;
    uint32_t node;
  };

  std::vector<Range> ranges = {{0, entries.size(), 0, kRoot}};
  std::vector<unsigned char> labels;
  for (size_t i = 0; i < ranges.size(); ++i) {
    auto [begin, end, depth, node] = ranges[i];
    if (begin < end && entries[begin].first.size() == depth) {
      units_[node].value = entries[begin++].second;
    }
    if (begin == end) continue;
    labels.clear();
    const size_t first = ranges.size();
    for (size_t at = begin; at < end; ++at) {
      const auto label = static_cast<unsigned char>(entries[at].first[depth]);
      if (labels.empty() || labels.back() != label) {
        labels.push_back(label);
        ranges.push_back({at, at, depth + 1, 0});
      }
      ranges.back().end = at + 1;
    }
    const uint32_t children = builder.place(labels);
    units_[node].children = children;
    for (size_t k = 0; k < labels.size(); ++k) ranges[first + k].node = children ^ labels[k];
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

}  // namespace meg::tokenizer
