#include "libmeg/tokenizer/models/internal/sentencepiece/model.h"

#include <algorithm>
#include <utility>

namespace meg::tokenizer::sentencepiece {

namespace {

std::optional<int32_t> find_exactly(const PieceTrie& trie, std::string_view text) {
  if (text.empty()) return std::nullopt;
  uint32_t node = trie.first(static_cast<unsigned char>(text[0]));
  for (size_t i = 1; i < text.size() && node != PieceTrie::kNoNode; ++i) {
    node = trie.next(node, static_cast<unsigned char>(text[i]));
  }
  if (node == PieceTrie::kNoNode || trie.value(node) == PieceTrie::kNoValue) return std::nullopt;
  return trie.value(node);
}

}  // namespace

bool is_used(const Piece& piece) {
  return piece.type == PieceType::kNormal || piece.type == PieceType::kUserDefined;
}

Result<Model> Model::build(ModelFile file) {
  Model model;
  model.file_ = std::make_unique<const ModelFile>(std::move(file));
  auto charsmap = Charsmap::parse(model.file_->normalizer.precompiled_charsmap);
  if (!charsmap) return charsmap.error().with_prefix("precompiled_charsmap");
  model.charsmap_ = std::move(*charsmap);
  if (model.file_->denormalizer) {
    charsmap = Charsmap::parse(model.file_->denormalizer->precompiled_charsmap);
    if (!charsmap) return charsmap.error().with_prefix("denormalizer_spec");
    model.denormalizer_charsmap_ = std::move(*charsmap);
  }
  std::vector<PieceTrie::Entry> ordinary, reserved, symbols;
  for (size_t i = 0; i < model.pieces().size(); ++i) {
    const Piece& piece = model.pieces()[i];
    if (is_nul_piece(piece)) continue;
    model.longest_piece_ = std::max(model.longest_piece_, piece.text.size());
    const auto id = static_cast<int32_t>(i);
    if (piece.type == PieceType::kByte) {
      model.byte_ids_[static_cast<size_t>(byte_of_piece(piece.text))] = id;
    }
    if (piece.type == PieceType::kUserDefined) symbols.emplace_back(piece.text, id);
    // The library keeps two maps as well: text never gives the pieces of the second, such as <s>.
    const bool named = is_used(piece) || piece.type == PieceType::kUnused;
    (named ? ordinary : reserved).emplace_back(piece.text, id);
  }
  model.user_symbols_ = PieceTrie(std::move(symbols));
  model.ordinary_ = PieceTrie(std::move(ordinary));
  model.reserved_ = PieceTrie(std::move(reserved));
  return model;
}

std::optional<int32_t> Model::find(std::string_view text) const {
  const std::optional<int32_t> id = find_exactly(reserved_, text);
  return id ? id : find_ordinary(text);
}

std::optional<int32_t> Model::find_ordinary(std::string_view text) const {
  return find_exactly(ordinary_, text);
}

std::optional<int32_t> Model::control_id(const std::string& text) const {
  const std::optional<int32_t> id = find(text);
  if (id && pieces()[static_cast<size_t>(*id)].type == PieceType::kControl) return id;
  return std::nullopt;
}

}  // namespace meg::tokenizer::sentencepiece
