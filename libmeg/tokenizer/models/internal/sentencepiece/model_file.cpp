#include "libmeg/tokenizer/models/internal/sentencepiece/model_file.h"

#include <array>
#include <bit>
#include <cmath>
#include <span>
#include <unordered_set>

#include "libmeg/base/wire_reader.h"
#include "libmeg/text/printable.h"
#include "libmeg/text/utf8.h"
#include "libmeg/tokenizer/json/internal/text_file.h"

namespace meg::tokenizer::sentencepiece {

namespace {

/// A piece takes far more memory than the two bytes that it can be in a file.
constexpr size_t kMaxPieces = size_t{1} << 24;

/// A field of a message that decides ids or texts, and how its value is taken. All others are
/// passed over: they say how the model was trained.
template <class Message>
struct FieldRow {
  uint32_t number;
  WireType type;
  std::string_view name;
  Status (*take)(const WireField& field, size_t offset, Message& message);
};

template <class Message>
Status read_message(std::string_view bytes, size_t offset, std::span<const FieldRow<Message>> rows,
                    Message& message) {
  WireReader reader(bytes, offset);
  while (!reader.at_end()) {
    const size_t start = reader.offset();
    MEG_ASSIGN_OR_RETURN(const WireField field, reader.next());
    for (const FieldRow<Message>& row : rows) {
      if (row.number != field.number) continue;
      // protobuf would keep it as an unknown field and leave the default, with other ids than the
      // writer meant.
      if (row.type != field.type) {
        return make_error(StatusCode::kCorruption, "byte {}: {}: expected wire type {}, found {}",
                          start, row.name, static_cast<int>(row.type),
                          static_cast<int>(field.type));
      }
      MEG_RETURN_IF_ERROR(row.take(field, reader.offset() - field.bytes.size(), message));
    }
  }
  return {};
}

template <class Message, auto kMember>
Status take_bool(const WireField& field, size_t, Message& message) {
  message.*kMember = field.value != 0;
  return {};
}

template <class Message, auto kMember>
Status take_text(const WireField& field, size_t offset, Message& message) {
  const size_t invalid = text::find_invalid_utf8(field.bytes);
  if (invalid != std::string_view::npos) {
    return make_error(StatusCode::kCorruption, "byte {}: expected UTF-8, found {}",
                      offset + invalid, text::printable(field.bytes.substr(invalid, 4)));
  }
  message.*kMember = std::string(field.bytes);
  return {};
}

/// Enumerators are 1 to kLast.
template <class Message, auto kMember, int kLast>
Status take_enum(const WireField& field, size_t offset, Message& message) {
  if (field.value < 1 || field.value > kLast) {
    return make_error(StatusCode::kCorruption, "byte {}: expected a type from 1 to {}, found {}",
                      offset - 1, kLast, field.value);
  }
  using Enum = std::remove_reference_t<decltype(message.*kMember)>;
  message.*kMember = static_cast<Enum>(field.value);
  return {};
}

Status take_score(const WireField& field, size_t offset, Piece& piece) {
  piece.score = std::bit_cast<float>(static_cast<uint32_t>(field.value));
  if (std::isfinite(piece.score)) return {};
  return make_error(StatusCode::kCorruption, "byte {}: score: expected a finite number, found {}",
                    offset - sizeof(float), piece.score);
}

constexpr std::array kPieceFields = {
    FieldRow<Piece>{1, WireType::kBytes, "piece", take_text<Piece, &Piece::text>},
    FieldRow<Piece>{2, WireType::kFixed32, "score", take_score},
    FieldRow<Piece>{3, WireType::kVarint, "type", take_enum<Piece, &Piece::type, 6>},
};

constexpr std::array kTrainerFields = {
    FieldRow<ModelFile>{3, WireType::kVarint, "model_type",
                        take_enum<ModelFile, &ModelFile::type, 4>},
    FieldRow<ModelFile>{24, WireType::kVarint, "treat_whitespace_as_suffix",
                        take_bool<ModelFile, &ModelFile::treat_whitespace_as_suffix>},
    FieldRow<ModelFile>{35, WireType::kVarint, "byte_fallback",
                        take_bool<ModelFile, &ModelFile::byte_fallback>},
    FieldRow<ModelFile>{44, WireType::kBytes, "unk_surface",
                        take_text<ModelFile, &ModelFile::unk_surface>},
    FieldRow<ModelFile>{45, WireType::kBytes, "unk_piece",
                        take_text<ModelFile, &ModelFile::unk_piece>},
    FieldRow<ModelFile>{46, WireType::kBytes, "bos_piece",
                        take_text<ModelFile, &ModelFile::bos_piece>},
    FieldRow<ModelFile>{47, WireType::kBytes, "eos_piece",
                        take_text<ModelFile, &ModelFile::eos_piece>},
    FieldRow<ModelFile>{48, WireType::kBytes, "pad_piece",
                        take_text<ModelFile, &ModelFile::pad_piece>},
};

Status take_charsmap(const WireField& field, size_t, NormalizerSpec& spec) {
  spec.precompiled_charsmap = std::string(field.bytes);
  return {};
}

constexpr std::array kNormalizerFields = {
    FieldRow<NormalizerSpec>{2, WireType::kBytes, "precompiled_charsmap", take_charsmap},
    FieldRow<NormalizerSpec>{3, WireType::kVarint, "add_dummy_prefix",
                             take_bool<NormalizerSpec, &NormalizerSpec::add_dummy_prefix>},
    FieldRow<NormalizerSpec>{4, WireType::kVarint, "remove_extra_whitespaces",
                             take_bool<NormalizerSpec, &NormalizerSpec::remove_extra_whitespaces>},
    FieldRow<NormalizerSpec>{5, WireType::kVarint, "escape_whitespaces",
                             take_bool<NormalizerSpec, &NormalizerSpec::escape_whitespaces>},
};

Status take_piece(const WireField& field, size_t offset, ModelFile& model) {
  if (model.pieces.size() == kMaxPieces) {
    return make_error(StatusCode::kUnsupported, "byte {}: expected at most {} pieces", offset,
                      kMaxPieces);
  }
  model.pieces.emplace_back();
  return read_message<Piece>(field.bytes, offset, kPieceFields, model.pieces.back());
}

Status take_trainer(const WireField& field, size_t offset, ModelFile& model) {
  return read_message<ModelFile>(field.bytes, offset, kTrainerFields, model);
}

Status take_normalizer(const WireField& field, size_t offset, ModelFile& model) {
  return read_message<NormalizerSpec>(field.bytes, offset, kNormalizerFields, model.normalizer);
}

Status take_denormalizer(const WireField& field, size_t offset, ModelFile& model) {
  // protobuf merges a message that comes twice into one.
  if (!model.denormalizer) model.denormalizer.emplace();
  return read_message<NormalizerSpec>(field.bytes, offset, kNormalizerFields, *model.denormalizer);
}

constexpr std::array kModelFields = {
    FieldRow<ModelFile>{1, WireType::kBytes, "pieces", take_piece},
    FieldRow<ModelFile>{2, WireType::kBytes, "trainer_spec", take_trainer},
    FieldRow<ModelFile>{3, WireType::kBytes, "normalizer_spec", take_normalizer},
    FieldRow<ModelFile>{5, WireType::kBytes, "denormalizer_spec", take_denormalizer},
};

Status check_text(const Piece& piece) {
  if (piece.text.empty()) {
    return Status(StatusCode::kCorruption, "expected a piece, found an empty one");
  }
  if (piece.text.size() >= kMaxPieceBytes) {
    return make_error(StatusCode::kCorruption, "expected less than {} bytes, found {}",
                      kMaxPieceBytes, piece.text.size());
  }
  if (piece.text.find('\0') == std::string::npos) return {};
  if (is_nul_piece(piece) && piece.type == PieceType::kUnused) return {};
  return make_error(StatusCode::kCorruption, "expected a piece without NUL, found {}",
                    text::printable(piece.text));
}

Status check_byte(const Piece& piece, bool byte_fallback) {
  if (piece.type != PieceType::kByte) return {};
  if (!byte_fallback) {
    return make_error(StatusCode::kCorruption,
                      "expected no byte pieces without byte_fallback, found {}",
                      text::printable(piece.text));
  }
  if (byte_of_piece(piece.text) >= 0) return {};
  return make_error(StatusCode::kCorruption, "expected <0x00> to <0xFF>, found {}",
                    text::printable(piece.text));
}

/// Pieces that text can name; the library keeps the others apart, except for BPE.
bool is_ordinary(const Piece& piece) {
  return piece.type == PieceType::kNormal || piece.type == PieceType::kUserDefined ||
         piece.type == PieceType::kUnused;
}

Status check_pieces(ModelFile& model) {
  std::array<std::unordered_set<std::string_view>, 2> texts;  // of ordinary pieces, of the others
  size_t bytes = 0;
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    Piece& piece = model.pieces[id];
    const std::string where = fmt::format("piece {}", id);
    // Some published models have such a piece beside <0x00>; C strings end before it, so the
    // library never finds it.
    if (model.byte_fallback && is_nul_piece(piece)) piece.type = PieceType::kUnused;
    MEG_RETURN_IF_ERROR(check_text(piece).with_prefix(where));
    MEG_RETURN_IF_ERROR(check_byte(piece, model.byte_fallback).with_prefix(where));
    auto& known = texts[model.type == ModelType::kBpe || is_ordinary(piece) ? 0 : 1];
    if (!known.insert(piece.text).second) {
      return make_error(StatusCode::kCorruption, "{}: {} is also an earlier piece", where,
                        text::printable(piece.text));
    }
    if (piece.type == PieceType::kByte) ++bytes;
    if (piece.type != PieceType::kUnknown) continue;
    if (model.unk_id) {
      return make_error(StatusCode::kCorruption, "{}: piece {} is already the unknown one", where,
                        *model.unk_id);
    }
    model.unk_id = static_cast<int32_t>(id);
  }
  if (!model.unk_id && !model.byte_fallback) {
    return make_error(StatusCode::kCorruption, "expected a piece of type unknown among {} pieces",
                      model.pieces.size());
  }
  if (model.byte_fallback && bytes != 256) {
    return make_error(StatusCode::kCorruption,
                      "expected the 256 byte pieces of byte_fallback, found {}", bytes);
  }
  return {};
}

}  // namespace

Result<ModelFile> ModelFile::parse(std::string_view bytes, const std::string& name) {
  MEG_RETURN_IF_ERROR(reject_empty_or_html(bytes, name, "a SentencePiece model"));
  // No Protocol Buffers message of a model begins so.
  if (bytes.starts_with('{')) {
    return make_error(
        StatusCode::kCorruption,
        "{}: expected a SentencePiece model, found JSON (HuggingFaceTokenizer reads a "
        "tokenizer.json)",
        name);
  }
  ModelFile model;
  MEG_RETURN_IF_ERROR(read_message<ModelFile>(bytes, 0, kModelFields, model).with_prefix(name));
  if (model.denormalizer && model.denormalizer->precompiled_charsmap.empty()) {
    model.denormalizer.reset();
  }
  const std::array<std::pair<std::string*, std::string_view>, 4> defaults = {{
      {&model.unk_piece, "<unk>"},
      {&model.bos_piece, "<s>"},
      {&model.eos_piece, "</s>"},
      {&model.pad_piece, "<pad>"},
  }};
  for (const auto& [text, standard] : defaults) {
    if (text->empty()) *text = standard;
  }
  MEG_RETURN_IF_ERROR(check_pieces(model).with_prefix(name));
  return model;
}

bool is_nul_piece(const Piece& piece) { return piece.text == std::string_view("\0", 1); }

Result<ModelFile> ModelFile::load(const std::string& path) {
  MEG_ASSIGN_OR_RETURN(const io::MappedFile file, open_tokenizer_file(path));
  return parse(file.text(), path);
}

int byte_of_piece(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return -1;
  const size_t high = kDigits.find(text[3]);
  const size_t low = kDigits.find(text[4]);
  if (high == std::string_view::npos || low == std::string_view::npos) return -1;
  return static_cast<int>(high * 16 + low);
}

std::string ModelFile::rules() const {
  // Write only what decides ids: unk_surface and the names of control pieces are left out.
  std::string text = fmt::format("sentencepiece {} {} {} {} {} {} {}\n", static_cast<int>(type),
                                 byte_fallback, treat_whitespace_as_suffix,
                                 normalizer.add_dummy_prefix, normalizer.remove_extra_whitespaces,
                                 normalizer.escape_whitespaces, normalizer.precompiled_charsmap);
  for (const Piece& piece : pieces) {
    text += fmt::format("{} {} {}\n", piece.text, piece.score, static_cast<int>(piece.type));
  }
  return text;
}

}  // namespace meg::tokenizer::sentencepiece
