#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace meg::tokenizer::wordpiece::fast {

/// Finds the words of reference::basic_words() in one pass. For use by one thread.
class WordScanner {
 public:
  /// Readable bytes after each word.
  static constexpr size_t kWordPadding = 32;

  explicit WordScanner(bool lower_case);

  /// Gives each word of text, which must be valid UTF-8, to emit(std::string_view word, size_t
  /// characters).
  template <class Emit>
  void scan(std::string_view text, const Emit& emit) {
    begin(text);
    while (at_ < end_) {
      const ByteRow row = rows_[static_cast<unsigned char>(*at_)];
      switch (row.byte_class) {
        case ByteClass::kWord:
          word_[size_++] = row.lower;
          ++at_;
          continue;
        case ByteClass::kRemoved:
          ++at_;
          continue;
        case ByteClass::kSpace:
          emit_word(emit);
          token_ = ++at_;
          continue;
        case ByteClass::kAlone:
          emit_word(emit);
          append(static_cast<unsigned char>(*at_++));
          emit_word(emit);
          continue;
        case ByteClass::kNotAscii:
          take_character(emit);
      }
    }
    emit_word(emit);
  }

 private:
  enum class ByteClass : uint8_t { kWord, kRemoved, kSpace, kAlone, kNotAscii };

  struct ByteRow {
    ByteClass byte_class;
    char lower;
  };

  /// What take_character() has to do with the characters that one became.
  enum class Action : uint8_t { kNothing, kPut, kPutAlone };

  void begin(std::string_view text);
  Action read_character();
  bool is_final_sigma(const char* sigma, const char* after) const;
  void append(char32_t code_point);
  void append_ordered(char32_t code_point);
  void replace_end(size_t from, std::string_view bytes);
  static bool is_alone(char32_t code_point);

  template <class Emit>
  void take_character(const Emit& emit) {
    const Action action = read_character();
    if (action == Action::kNothing) return;
    if (action != Action::kPut) emit_word(emit);  // a space or a Chinese character
    for (const char32_t code_point : added_) {
      const bool alone = is_alone(code_point);
      if (alone) emit_word(emit);
      append(code_point);
      if (alone) emit_word(emit);
    }
    if (starts_) run_ = size_;
    if (action == Action::kPut) return;
    emit_word(emit);
    token_ = at_;
  }

  template <class Emit>
  void emit_word(const Emit& emit) {
    if (size_ > 0) emit(std::string_view(word_.data(), size_), size_ - continuing_bytes_);
    size_ = continuing_bytes_ = run_ = 0;
  }

  const bool lower_case_;
  std::array<ByteRow, 256> rows_;
  const char* token_ = nullptr;  // where the characters between two spaces begin
  const char* at_ = nullptr;
  const char* end_ = nullptr;
  std::vector<char> word_;
  size_t size_ = 0;              // bytes of it
  size_t continuing_bytes_ = 0;  // those that begin no character
  size_t run_ = 0;               // bytes of it that keep their places
  std::vector<char32_t> added_;  // by the character that was read last
  bool starts_ = false;          // none is ordered past that character
};

}  // namespace meg::tokenizer::wordpiece::fast
