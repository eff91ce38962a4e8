#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/result.h"

namespace meg::tokenizer {

/// Gives words their ids. Belongs to one thread; must not outlive the WordModel that made it.
class WordSegmenter {
 public:
  virtual ~WordSegmenter() = default;

  /// Appends the ids of a word, which is not empty: at most one a byte. kInvalidArgument for a word
  /// that is not in the vocabulary of a model without unknown token.
  virtual Status segment(std::string_view word, std::vector<int32_t>& ids) = 0;
};

/// A model of a tokenizer.json in which a word's ids depend on the word alone: Unigram, WordPiece
/// or WordLevel. Immutable and safe to share.
class WordModel {
 public:
  virtual ~WordModel() = default;

  virtual std::unique_ptr<WordSegmenter> new_segmenter() const = 0;

  /// What a token of the vocabulary adds to a decoded text.
  virtual std::string token_bytes(std::string_view token) const { return std::string(token); }

  /// The id of texts that are not in the vocabulary, where such a token keeps its text; nullopt in
  /// models that write the unknown token instead, or have none.
  virtual std::optional<int32_t> unknown_id() const { return std::nullopt; }
};

}  // namespace meg::tokenizer
