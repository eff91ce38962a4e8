#include "libmeg/tokenizer/models/internal/sentencepiece/decode.h"

#include <string_view>

#include "libmeg/text/utf8.h"
#include "libmeg/tokenizer/models/internal/sentencepiece/reference/normalize.h"

// The library decodes piece by piece with a little state: whether text has begun, and bytes that
// wait for the rest of their character. Both are here in one class, so that a stream of ids can be
// decoded in parts with the same result.

namespace meg::tokenizer::sentencepiece {

namespace {

void append_with_spaces(std::string_view piece, std::string& text) {
  for (size_t symbol; (symbol = piece.find(kSpaceSymbol)) != std::string_view::npos;) {
    text.append(piece.substr(0, symbol)) += ' ';
    piece.remove_prefix(symbol + kSpaceSymbol.size());
  }
  text += piece;
}

class Decoder {
 public:
  explicit Decoder(const Model& model) : model_(model) {}

  void add(const Piece& piece) {
    if (piece.type == PieceType::kByte) {
      // Byte pieces that stand together may be the bytes of one character, so they become text only
      // when another piece or the end comes.
      bytes_ += bytes_of(model_, piece);
      return;
    }
    flush_bytes();
    if (!text_.empty()) at_start_ = false;
    if (piece.type != PieceType::kControl) add_text(piece);
  }

  /// Leaves out, with more_follow, a character that further byte pieces may complete.
  std::string take(bool more_follow) {
    if (more_follow) bytes_.resize(text::size_of_whole_characters(bytes_));
    flush_bytes();
    return std::move(text_);
  }

 private:
  /// At the start a space is left out, as encoding adds one there; where it removes extra ones, so
  /// are all until other text comes.
  void add_text(const Piece& piece) {
    const NormalizerSpec& spec = model_.file().normalizer;
    std::string_view text = piece.text;
    bool left_out = false;
    if (at_start_ && (spec.add_dummy_prefix || spec.remove_extra_whitespaces) &&
        text.starts_with(kSpaceSymbol)) {
      text.remove_prefix(kSpaceSymbol.size());
      left_out = !spec.remove_extra_whitespaces;
    }
    if (piece.type == PieceType::kUnknown) {
      text_ += model_.file().unk_surface;
    } else {
      append_with_spaces(text, text_);
    }
    if (left_out || !text_.empty()) at_start_ = false;
  }

  /// Each byte that is no part of a character becomes U+FFFD.
  void flush_bytes() {
    for (std::string_view rest = bytes_; !rest.empty();) {
      const text::DecodedCodePoint found = text::decode_code_point(rest);
      const bool valid = found.code_point != text::kInvalidCodePoint;
      text_ += valid ? rest.substr(0, found.size) : "\xEF\xBF\xBD";
      rest.remove_prefix(valid ? found.size : 1);
    }
    bytes_.clear();
  }

  const Model& model_;
  std::string text_;
  std::string bytes_;  // of byte pieces that stand one after another
  bool at_start_ = true;
};

}  // namespace

std::string decode(const Model& model, std::span<const int32_t> ids, bool more_follow) {
  // A rule of the denormalizer may reach across any place.
  if (more_follow && model.file().denormalizer) return {};
  Decoder decoder(model);
  for (const int32_t id : ids) decoder.add(model.pieces()[static_cast<size_t>(id)]);
  std::string text = decoder.take(more_follow);
  return model.file().denormalizer ? reference::denormalize(model, text) : text;
}

std::string bytes_of(const Model& model, const Piece& piece) {
  std::string bytes;
  if (piece.type == PieceType::kByte) {
    bytes = static_cast<char>(byte_of_piece(piece.text));
  } else if (piece.type == PieceType::kUnknown) {
    bytes = model.file().unk_surface;
  } else if (piece.type != PieceType::kControl) {
    append_with_spaces(piece.text, bytes);
  }
  return bytes;
}

}  // namespace meg::tokenizer::sentencepiece
