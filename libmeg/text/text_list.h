#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <vector>

namespace meg::text {

/// The texts that a JSON line has for a key, in order: views of bytes that live elsewhere. A line
/// may be one list of millions of them, so each is held as its distance from the text before it and
/// its length: two bytes for a short text.
class TextList {
 public:
  /// Where a text's bytes are: in the line, or where its escapes were resolved. In each place
  /// every text lies after the one before.
  enum class Place { kLine, kUnescaped };

  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = std::string_view;
    using difference_type = std::ptrdiff_t;
    using pointer = const std::string_view*;
    using reference = std::string_view;

    std::string_view operator*() const { return text_; }

    Iterator& operator++() {
      at_ = next_;
      decode();
      return *this;
    }

    bool operator==(const Iterator& other) const { return at_ == other.at_; }

   private:
    friend class TextList;

    Iterator(const uint8_t* at, const uint8_t* end, std::array<const char*, 2> places)
        : at_(at), end_(end), behind_(places) {
      decode();
    }

    void decode();

    const uint8_t* at_;  // the code of text_
    const uint8_t* next_ = nullptr;
    const uint8_t* end_;
    std::array<const char*, 2> behind_;  // the last text of each place
    std::string_view text_;
  };

  /// Removes the texts, and releases memory that only a giant line needed. line, unescaped: the
  /// beginnings of the two places.
  void restart(const char* line, const char* unescaped);

  void push_back(Place place, std::string_view text);

  /// Says that the line had a list, not one text.
  void mark_list() { is_list_ = true; }

  bool is_list() const { return is_list_; }

  size_t size() const { return size_; }

  bool empty() const { return size_ == 0; }

  /// The first text; there must be one.
  std::string_view front() const { return *begin(); }

  Iterator begin() const { return {codes_.data(), codes_.data() + codes_.size(), places_}; }

  Iterator end() const {
    const uint8_t* end = codes_.data() + codes_.size();
    return {end, end, places_};
  }

 private:
  void append_number(uint64_t number);

  std::array<const char*, 2> places_{};
  std::array<const char*, 2> behind_{};  // the last text of each place
  std::vector<uint8_t> codes_;           // for each text: distance and place, length
  size_t size_ = 0;
  bool is_list_ = false;
};

}  // namespace meg::text
