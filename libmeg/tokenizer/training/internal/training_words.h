#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace meg::tokenizer {

/// The distinct words of a corpus with their counts. A word of one byte has no pair and is omitted.
class TrainingWords {
 public:
  void add(std::string_view word, int64_t count) {
    bytes_ += word;
    ends_.push_back(bytes_.size());
    counts_.push_back(count);
  }

  size_t size() const { return counts_.size(); }

  /// Total size of all words.
  size_t total_bytes() const { return bytes_.size(); }

  std::string_view word(size_t index) const {
    const size_t begin = index == 0 ? 0 : ends_[index - 1];
    return std::string_view(bytes_).substr(begin, ends_[index] - begin);
  }

  int64_t count(size_t index) const { return counts_[index]; }

 private:
  std::string bytes_;
  std::vector<size_t> ends_;
  std::vector<int64_t> counts_;
};

}  // namespace meg::tokenizer
