#pragma once

#include <xxhash.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

// Lines, paragraphs and their repetitions, as datatrove 0.10 counts them.

namespace meg::cleaning {

inline double ratio(int64_t part, int64_t whole) {
  return static_cast<double>(part) / static_cast<double>(whole);
}

/// Whether a character with one of these flags occurs in `text`.
bool any_has(std::string_view text, uint32_t flags);

inline constexpr size_t kLoadedBytes = sizeof(uint64_t);

inline uint64_t load_word(const char* at) {
  uint64_t word;
  std::memcpy(&word, at, kLoadedBytes);
  return word;
}

/// str.splitlines()
void split_lines(std::string_view text, std::vector<std::string_view>& lines);

/// re.split of runs of at least `least` LFs.
void split_at_newlines(std::string_view text, size_t least, std::vector<std::string_view>& parts);

/// Texts, by their digests, with how often each occurs and where it does first.
class DigestCounts {
 public:
  struct Slot {
    uint64_t digest = 0;
    uint32_t count = 0;
    uint32_t first = 0;
  };

  /// most: how many there will be.
  void restart(size_t most) {
    size_t size = 16;
    while (size < most * 2) size *= 2;
    slots_.assign(size, {});
  }

  /// The text's slot, after it was counted. place: of the text.
  const Slot& add(std::string_view text, size_t place) {
    const uint64_t digest = XXH3_64bits(text.data(), text.size());
    const size_t mask = slots_.size() - 1;
    size_t at = digest & mask;
    while (slots_[at].count > 0 && slots_[at].digest != digest) at = (at + 1) & mask;
    Slot& slot = slots_[at];
    if (slot.count++ == 0) {
      slot.digest = digest;
      slot.first = static_cast<uint32_t>(place);
    }
    return slot;
  }

 private:
  std::vector<Slot> slots_;
};

struct Repeated {
  int64_t count = 0;
  int64_t characters = 0;
};

/// The parts that are equal to an earlier one.
Repeated count_repeated(const std::vector<std::string_view>& parts, DigestCounts& counts);

}  // namespace meg::cleaning
