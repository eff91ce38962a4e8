#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace meg::tokenizer {

/// The words that are tokens, for models that do not merge such words.
class WholeWords {
 public:
  struct Word {
    std::string_view text;
    int32_t id;
  };

  WholeWords() = default;

  /// words: their texts must outlive this; of equal ones the first counts.
  explicit WholeWords(std::vector<Word> words);

  bool empty() const { return words_.empty(); }

  /// The words, equal ones as often as they were given.
  const std::vector<Word>& words() const { return words_; }

  /// Whether no two words are equal.
  bool are_distinct() const { return are_distinct_; }

  std::optional<int32_t> find(std::string_view text) const;

 private:
  struct Slot {
    uint32_t tag = 0;   // of the hash
    uint32_t word = 0;  // in words_, plus 1; 0 where the slot is free
  };

  static uint64_t hash_of(std::string_view text);
  size_t slot_of(std::string_view text, uint64_t hash) const;

  uint64_t filter_bit(uint64_t hash) const { return hash >> filter_shift_; }

  std::vector<Word> words_;
  bool are_distinct_ = true;
  std::vector<Slot> slots_;  // a power of two, at most half full
  // Most words that are looked up are no tokens: a bit for each of a table of 16 times as many
  // slots as words, which stays in a near cache, tells most of them.
  std::vector<uint64_t> filter_;
  int filter_shift_ = 0;
};

}  // namespace meg::tokenizer
