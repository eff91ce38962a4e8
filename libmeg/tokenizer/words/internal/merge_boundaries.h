#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace meg::tokenizer::fast {

/// Finds places where words of three-byte characters (U+0800 to U+FFFF) can be cut without changing
/// ids: between two characters that no token contains side by side, not even in part. Merges only
/// make tokens, so none ever crosses such a border, and each side is merged as if it were alone.
/// Chinese, Japanese, Thai and others are written without spaces, so that their words are long and
/// mostly new, while their parts are a few characters that a cache knows.
///
/// Scanners cut all words of characters from U+3000 on; other words are cut by the encoder, and
/// only if they are long or new, as a script with spaces has short words that a cache knows whole.
/// Immutable; shared between threads.
class MergeBoundaries {
 public:
  /// Cuts nothing.
  MergeBoundaries() = default;

  /// tokens: all that merging can give, at the end or on the way. unmerged: words that are tokens
  /// although merging would not give them.
  explicit MergeBoundaries(std::span<const std::string_view> tokens,
                           std::span<const std::string_view> unmerged = {});

  /// Whether there is anything for cut() to find.
  bool cuts() const { return cuts_; }

  /// Adds to `starts` the borders at which words may be cut. Bit i of number k stands for the byte
  /// text[64 k + i]. borders: those before which a character ends and at which one begins, both of
  /// three bytes. 8 bytes after the last one must be readable.
  void cut(const char* text, std::span<const uint64_t> borders, std::span<uint64_t> starts) const;

  /// The first border after `begin`, where a character begins, at which a word may be cut; the size
  /// of the word if there is none. 8 bytes after the word must be readable.
  size_t next_cut(std::string_view word, size_t begin) const;

 private:
  /// A set of numbers that may seem to have a few more.
  class Filter {
   public:
    Filter() = default;
    explicit Filter(std::span<const uint64_t> keys);

    bool empty() const { return bits_.empty(); }

    bool has(uint64_t key) const {
      if (empty()) return false;
      const uint64_t bit = bit_of(key);
      return ((bits_[bit / 64] >> (bit % 64)) & 1) != 0;
    }

   private:
    uint64_t bit_of(uint64_t key) const { return (key * 0x9e3779b97f4a7c15u) >> shift_; }

    std::vector<uint64_t> bits_;
    int shift_ = 0;
  };

  /// A border inside a token, with the bytes of the token on either side, as far as they belong to
  /// the character there.
  struct InnerBorder {
    size_t before, after;  // 1 to 3 bytes
    uint64_t key;          // these bytes, the first in the lowest bits
  };

  /// Inner borders with a part of a character that a character may be at, a bit for each kind of
  /// border, and kAlone for characters of words_alone_.
  struct Sides {
    uint16_t ends;    // those that it may be before
    uint16_t begins;  // those that it may be after
  };

  static constexpr uint16_t kAlone = 1U << 15;

  static void add_inner_borders(std::string_view token, std::vector<InnerBorder>& inner);
  static void add_word_alone(std::string_view token, std::vector<uint64_t>& keys);
  static Filter filter_of(std::span<const InnerBorder> inner);
  static std::vector<Sides> sides_of(std::span<const InnerBorder> inner);
  bool is_beside_word_alone(const char* text, size_t at) const;
  bool may_cut(const char* text, size_t at) const;

  bool cuts_ = false;
  Filter pairs_;              // inner borders of whole characters
  Filter parts_;              // the others, of which vocabularies have few
  std::vector<Sides> sides_;  // by character; mostly there is no kind that both sides have

  // Pairs of characters of tokens that merging would not produce, but that a word may be as a
  // whole, and characters at their ends. Cutting could leave such a token as a part, so borders
  // beside these are not cut.
  Filter words_alone_;
};

}  // namespace meg::tokenizer::fast
