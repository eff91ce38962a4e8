#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string_view>
#include <vector>

#include "libmeg/tokenizer/bpe/internal/bpe_model.h"

namespace meg::tokenizer::fast {

/// Finds places where words of three-byte characters from U+3000 on (Chinese, Japanese, Korean) can
/// be cut without changing ids: between two characters that no token contains side by side, not
/// even in part. Merges only make tokens, so none ever crosses such a border, and each side is
/// merged as if it were alone. Such scripts have no spaces, so their words are long and mostly new,
/// while their parts are a few characters that a cache knows.
/// Immutable; shared between threads.
class CharacterJoints {
 public:
  /// The number of ids that merging gives bytes.
  using MergedSize = std::function<size_t(std::string_view bytes)>;

  /// Cuts nothing.
  CharacterJoints() = default;

  /// Takes a model that merges bytes; for others nothing is cut.
  CharacterJoints(const BpeModel& model, const MergedSize& merged_size);

  /// Whether cut() may find anything in text.
  bool concerns(std::string_view text) const;

  /// Copies the `starts` of `count` words to `parts`, each followed by the borders at which the
  /// word may be cut; for the last word, whose end is unknown, only the start. Returns their
  /// number. base: starts count from it; 8 bytes after the last one must be readable. parts: must
  /// have room for a start per byte.
  size_t cut(const char* base, const uint32_t* starts, size_t count, uint32_t* parts) const;

 private:
  /// Bytes on either side of a border, as a little-endian number: of the six around it those that a
  /// token has.
  struct Kind {
    int shift;
    uint64_t mask;
  };

  /// Numbers that are, but for a few more, those added.
  class Filter {
   public:
    void reserve(size_t count);
    void add(uint64_t key);

    bool has(uint64_t key) const {
      const uint64_t bit = (key * 0x9e3779b97f4a7c15u) >> shift_;
      return ((bits_[bit / 64] >> (bit % 64)) & 1) != 0;
    }

   private:
    std::vector<uint64_t> bits_;
    int shift_ = 0;
  };

  void add_token(std::string_view token, std::vector<uint64_t>& keys);
  uint32_t* cut_word(const char* base, uint32_t begin, uint32_t end, uint32_t* parts) const;

  bool is_joined(uint64_t around) const {
    for (const Kind& kind : kinds_) {
      if (joined_.has(around >> kind.shift & kind.mask)) return true;
    }
    return false;
  }

  bool cuts_ = false;
  std::vector<Kind> kinds_;  // that tokens have
  Filter joined_;

  // Pairs of characters of tokens that merging would not produce, but that a word may be as a
  // whole. Cutting could leave such a token as a part, so words with such a pair are not cut.
  std::vector<uint64_t> of_words_alone_;
};

}  // namespace meg::tokenizer::fast
