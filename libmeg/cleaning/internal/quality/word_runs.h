#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "libmeg/cleaning/internal/quality/quality_text.h"
#include "libmeg/cleaning/internal/step.h"
#include "libmeg/cleaning/words/english_words.h"
#include "libmeg/text/ascii.h"

namespace meg::cleaning {

/// The words of a text one after another, to look at runs of them.
class WordRuns {
 public:
  /// words: of the document, in order. has_spaces: one after each.
  void set(Document& document, bool has_spaces) {
    const std::vector<std::string_view>& words = document.words();
    separator_ = has_spaces ? 1 : 0;
    is_ascii_ = text::is_ascii(document.text());
    const size_t most = document.text().size() + words.size() + kCopied;
    if (joined_.size() < most) joined_.resize(most * 2);
    begins_.resize(words.size() + 1);
    char* const begin = joined_.data();
    char* out = begin;
    for (size_t i = 0; i < words.size(); ++i) {
      begins_[i] = static_cast<size_t>(out - begin);
      // Most words are short, and a text has readable bytes after it.
      const std::string_view word = words[i];
      std::memcpy(out, word.data(), kCopied);
      if (word.size() > kCopied) std::memcpy(out, word.data(), word.size());
      out += word.size();
      *out = ' ';
      out += separator_;
    }
    begins_.back() = static_cast<size_t>(out - begin);
    if (is_ascii_) return;
    characters_.assign(1, 0);
    for (const std::string_view word : words) {
      characters_.push_back(characters_.back() + count_characters(word));
    }
  }

  size_t words() const { return begins_.size() - 1; }

  std::string_view run(size_t first, size_t count) const {
    const size_t begin = begins_[first];
    return {joined_.data() + begin, begins_[first + count] - separator_ - begin};
  }

  /// A number that is the same for equal runs.
  uint64_t key(size_t first, size_t count) const {
    const std::string_view text = run(first, count);
    uint64_t word = load_word(text.data());
    if (text.size() < kLoadedBytes) word &= (uint64_t{1} << text.size() * 8) - 1;
    return (word ^ text.size()) * kFactor;
  }

  /// The same of the first 16 bytes of all words from this one on.
  uint64_t beginning_key(size_t first) const {
    const char* const at = joined_.data() + begins_[first];
    return (load_word(at) * kFactor ^ std::rotl(load_word(at + kLoadedBytes), 32)) * kFactor;
  }

  /// Of the longest run of `count` words.
  int64_t most_characters(size_t count) const {
    int64_t most = 0;
    for (size_t i = 0; i + count <= words(); ++i) most = std::max(most, characters(i, count));
    return most;
  }

  int64_t characters(size_t first, size_t count) const {
    if (is_ascii_) return std::ssize(run(first, count));
    return characters_[first + count] - characters_[first] +
           static_cast<int64_t>(separator_ * (count - 1));
  }

 private:
  static constexpr size_t kCopied = 16;
  static constexpr uint64_t kFactor = 0x9e3779b97f4a7c15;

  size_t separator_ = 0;
  bool is_ascii_ = false;
  std::vector<char> joined_;         // and bytes after it
  std::vector<size_t> begins_;       // and the end
  std::vector<int64_t> characters_;  // before each; not of ASCII
};

}  // namespace meg::cleaning
