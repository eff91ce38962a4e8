#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace meg::cleaning {

/// The words of a text as datatrove 0.10 has them: the tokens of spaCy 3.8's blank English
/// tokenizer. Belongs to one thread.
class EnglishWords {
 public:
  /// Sets words() to those of `text`, which is UTF-8: views into it.
  void split(std::string_view text);

  /// Without whitespace.
  const std::vector<std::string_view>& words() const { return words_; }

  /// How many sentences spaCy's sentencizer finds in `text`.
  int64_t count_sentences(std::string_view text);

 private:
  class Chunk;

  void split_tokens(std::string_view text);
  size_t skip_space(std::string_view text, size_t at);
  void push_word(std::string_view word);
  void merge_split_words();

  std::vector<std::string_view> tokens_;  // with those of whitespace
  std::vector<std::string_view> words_;

  // Of the chunk between whitespace that is being split.
  std::vector<char32_t> code_points_;
  std::vector<uint32_t> offsets_;
  std::vector<std::string_view> suffixes_;
};

/// Code points of UTF-8, Python's len().
int64_t count_characters(std::string_view text);

/// The flags of a character (CharacterFlags).
uint32_t character_flags(char32_t code_point);

}  // namespace meg::cleaning
