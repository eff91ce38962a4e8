#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/tokenizer/models/internal/piece_trie.h"
#include "libmeg/tokenizer/models/internal/sentencepiece/charsmap.h"
#include "libmeg/tokenizer/models/internal/sentencepiece/model_file.h"
#include "libmeg/tokenizer/models/internal/sentencepiece/normalizing_step.h"
#include "libmeg/tokenizer/words/internal/metaspace_scan.h"

namespace meg::tokenizer::sentencepiece {

/// A model file with what all of its encoders look up. Immutable.
class Model {
 public:
  /// kCorruption if a charsmap is invalid; otherwise the errors of ModelFile::parse().
  static Result<Model> build(ModelFile file);

  const ModelFile& file() const { return *file_; }

  const std::vector<Piece>& pieces() const { return file_->pieces; }

  const Charsmap& charsmap() const { return charsmap_; }

  /// May be called only where file() has a denormalizer.
  const Charsmap& denormalizer_charsmap() const { return denormalizer_charsmap_; }

  /// The texts of user-defined symbols, each with its id.
  const PieceTrie& user_symbols() const { return user_symbols_; }

  /// Bytes of the longest piece.
  size_t longest_piece() const { return longest_piece_; }

  /// The id of a byte's piece; only with byte_fallback.
  int32_t byte_id(unsigned char byte) const { return byte_ids_[byte]; }

  /// The id of a text that is a piece, those that text cannot name before the others.
  std::optional<int32_t> find(std::string_view text) const;

  /// The id of a text that is a piece which text can name, used or not.
  std::optional<int32_t> find_ordinary(std::string_view text) const;

  /// Ids of the tokens <s>, </s> and <pad>, as the model spells them; empty where a model lacks it.
  std::optional<int32_t> bos_id() const { return control_id(file_->bos_piece); }

  std::optional<int32_t> eos_id() const { return control_id(file_->eos_piece); }

  std::optional<int32_t> pad_id() const { return control_id(file_->pad_piece); }

 private:
  std::optional<int32_t> control_id(const std::string& text) const;

  std::unique_ptr<const ModelFile> file_;  // whose pieces the tries point into
  Charsmap charsmap_, denormalizer_charsmap_;
  PieceTrie user_symbols_;
  PieceTrie ordinary_, reserved_;  // pieces that text can name, and the others
  std::array<int32_t, 256> byte_ids_{};
  size_t longest_piece_ = 0;
};

/// Whether a piece of score a is joined before one of score b. -0 is below 0.
inline bool is_better(float a, float b) {
  return a > b || (a == b && std::signbit(a) < std::signbit(b));
}

/// The pieces that text can name and that are used: normal ones and user-defined symbols.
bool is_used(const Piece& piece);

}  // namespace meg::tokenizer::sentencepiece
