#pragma once

#include <string>
#include <string_view>
#include <unordered_map>

#include "libmeg/tokenizer/models/internal/bpe/vocabulary.h"
#include "libmeg/tokenizer/models/internal/word_model.h"
#include "libmeg/tokenizer/models/internal/wordpiece/word_piece_model.h"

namespace meg::tokenizer {

/// The model "WordPiece" of a tokenizer.json.
/// Mirrors Hugging Face tokenizers, models/wordpiece/mod.rs: WordPiece.
class WordPieceWords : public WordModel {
 public:
  struct Options {
    std::string unknown_token = "[UNK]";
    std::string continuation = "##";
    size_t max_characters = 100;
    std::string place;  ///< For messages.
  };

  WordPieceWords(const Vocabulary& vocabulary, const Options& options);

  std::unique_ptr<WordSegmenter> new_segmenter() const override;

  std::string token_bytes(std::string_view token) const override;

 private:
  class Segmenter;

  const Options options_;
  const wordpiece::WordPieceModel model_;
};

/// The model "WordLevel" of a tokenizer.json: words of the vocabulary.
/// Mirrors Hugging Face tokenizers, models/wordlevel/mod.rs: WordLevel.
class WordLevelModel : public WordModel {
 public:
  /// place: for messages.
  WordLevelModel(const Vocabulary& vocabulary, std::string unknown_token, std::string place);

  std::unique_ptr<WordSegmenter> new_segmenter() const override;

 private:
  class Segmenter;

  const std::unordered_map<std::string, int32_t> ids_;
  const std::string unknown_token_;
  const std::string place_;
};

}  // namespace meg::tokenizer
