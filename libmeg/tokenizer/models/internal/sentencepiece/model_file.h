#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/result.h"

namespace meg::tokenizer::sentencepiece {

/// The kinds of a vocabulary's pieces; the numbers are the file's.
enum class PieceType : uint8_t {
  kNormal = 1,
  kUnknown = 2,      ///< What has no piece; at most one.
  kControl = 3,      ///< Never produced from text: <s>, </s>.
  kUserDefined = 4,  ///< Always one token, neither normalized nor split.
  kUnused = 5,       ///< Never given, though merges may go through it.
  kByte = 6,         ///< <0x00> ... <0xFF>, for characters without a piece
};

struct Piece {
  std::string text;  ///< UTF-8, not empty, without NUL
  float score = 0;   ///< finite
  PieceType type = PieceType::kNormal;
};

/// What turns a text into the form that is encoded, and, after decoding, back.
struct NormalizerSpec {
  std::string precompiled_charsmap;
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
};

enum class ModelType : uint8_t { kUnigram = 1, kBpe = 2, kWord = 3, kChar = 4 };

/// A SentencePiece model: the fields of its .model file that decide ids and texts.
/// Mirrors google/sentencepiece src/sentencepiece_model.proto: ModelProto.
struct ModelFile {
  std::vector<Piece> pieces;  ///< by id; texts differ
  ModelType type = ModelType::kUnigram;
  bool byte_fallback = false;  ///< then all 256 byte pieces are there
  bool treat_whitespace_as_suffix = false;
  std::string unk_piece = "<unk>";
  std::string bos_piece = "<s>";
  std::string eos_piece = "</s>";
  std::string pad_piece = "<pad>";
  std::string unk_surface = " \xE2\x81\x87 ";  ///< What the unknown piece decodes to.
  NormalizerSpec normalizer;
  std::optional<NormalizerSpec> denormalizer;  ///< set only if it has a charsmap

  /// The id of the unknown piece; empty only with byte_fallback.
  std::optional<int32_t> unk_id;

  /// bytes: a .model file's; name: the file's, for errors. kCorruption where these are no such
  /// message, or one that the SentencePiece library refuses: pieces that are empty, too long,
  /// given twice or hold NUL, no unknown piece, byte pieces that are wrong or missing, scores that
  /// are no numbers. Also where a text is not UTF-8.
  static Result<ModelFile> parse(std::string_view bytes, const std::string& name);

  /// Everything that decides ids, as a text that differs if any of it does, for Tokenizer::rules().
  std::string rules() const;

  /// Parses the file at `path`.
  static Result<ModelFile> load(const std::string& path);
};

/// Pieces have fewer bytes, as in the library.
inline constexpr size_t kMaxPieceBytes = 8000;

/// Whether this is the one piece that may contain NUL: some converters write it in addition to
/// <0x00>, and the library treats it as unused and drops it.
bool is_nul_piece(const Piece& piece);

/// The byte of a byte piece's text, such as 10 for "<0x0A>"; -1 if it is not one.
int byte_of_piece(std::string_view text);

}  // namespace meg::tokenizer::sentencepiece
