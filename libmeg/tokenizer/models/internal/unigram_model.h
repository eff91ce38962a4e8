#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libmeg/tokenizer/models/internal/piece_trie.h"
#include "libmeg/tokenizer/models/internal/word_model.h"

namespace meg::tokenizer {

/// The model "Unigram" of a tokenizer.json: the pieces with the largest sum of scores, in double
/// from the start of each word, the first of ways that are equally good.
/// Mirrors Hugging Face tokenizers, models/unigram/model.rs: Unigram.
class UnigramModel : public WordModel {
 public:
  struct Piece {
    std::string text;
    double score;
  };

  struct Options {
    std::optional<int32_t> unknown_id;
    bool byte_fallback = false;  ///< Unknown text becomes `<0x41>` and so on, where all are there.
    std::string place;           ///< For messages.
  };

  /// pieces: by id; texts differ. options.unknown_id: one of them.
  UnigramModel(const std::vector<Piece>& pieces, Options options);

  std::unique_ptr<WordSegmenter> new_segmenter() const override;

  std::string token_bytes(std::string_view token) const override;

  std::optional<int32_t> unknown_id() const override { return options_.unknown_id; }

 private:
  class Segmenter;

  const Options options_;
  const PieceTrie trie_;
  std::vector<double> scores_;  // by id
  double unknown_score_;
  std::array<std::optional<int32_t>, 256> byte_ids_;
};

}  // namespace meg::tokenizer
