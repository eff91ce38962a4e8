#include "libmeg/tokenizer/models/internal/sentencepiece/fast/fast_encoder.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "libmeg/base/cpu.h"
#include "libmeg/tokenizer/models/internal/sentencepiece/fast/bpe.h"
#include "libmeg/tokenizer/models/internal/sentencepiece/fast/space_form.h"
#include "libmeg/tokenizer/models/internal/sentencepiece/fast/text_normalizer.h"
#include "libmeg/tokenizer/models/internal/sentencepiece/id_writer.h"
#include "libmeg/tokenizer/models/internal/sentencepiece/unigram_scores.h"
#include "libmeg/tokenizer/words/internal/vector_functions.h"
#include "libmeg/tokenizer/words/internal/word_caches.h"

namespace meg::tokenizer::sentencepiece::fast {

namespace {

/// Encodes the words of normalized texts, which it remembers. Segmenter: BpeSegmenter or
/// UnigramSegmenter.
template <class Id, class Segmenter>
class FastEncoder : public TokenEncoder {
 public:
  template <class Table>
  FastEncoder(const Model& model, const PlainCharacters& plain,
              const tokenizer::fast::WordSplit& split, const Table& table)
      : model_(model),
        form_(model.file().normalizer.escape_whitespaces),
        split_(split),
        scan_(tokenizer::fast::vector_functions(best_instruction_set()).scan_split),
        prefetch_words_(tokenizer::fast::vector_functions(best_instruction_set()).prefetch_words),
        normalizer_(model, plain),
        segmenter_(table) {}

  Status encode(std::string_view text, TokenBuffer& tokens) override {
    const std::string_view normalized = normalizer_.normalize(text);
    if (normalized.empty()) return {};
    // An unknown space is three bytes; entries are copied whole.
    const size_t room = kSpaceSymbol.size() * normalized.size() + kCopyRoom;
    Id* const begin = tokens.grow<Id>(static_cast<int64_t>(room));
    IdWriter<Id> writer(model_, begin);
    segmenter_.begin_text();
    WordScan scan(normalized);
    scan.split = &split_;
    const char* word = normalized.data();
    while (scan.position < scan.end) {
      const char* const base = scan.position;
      const size_t count = scan_(scan, starts_.data());
      if (count == 0) continue;
      const char* const first = base + starts_[0];
      if (first != word) encode_word({word, first}, writer);
      word = base + starts_[count - 1];
      for (size_t i = 0; i + 1 < count; i += kBatch) {
        encode_batch(base, &starts_[i], std::min(kBatch, count - 1 - i), writer);
      }
    }
    encode_word({word, scan.end}, writer);
    tokens.commit(writer.end() - begin);
    return {};
  }

 private:
  using WordScan = tokenizer::fast::WordScan;
  using Caches = tokenizer::fast::WordCaches<Id>;
  using ShortKey = tokenizer::fast::WordKey<16>;

  static constexpr size_t kMaxCachedBytes = 256;
  static constexpr size_t kCopyRoom = Caches::kMaxIds;

  /// Words whose cache entries are prefetched together, so that the waits for memory overlap.
  static constexpr size_t kBatch = 256;

  /// The words [starts[i], starts[i + 1]) for i < count.
  [[gnu::noinline]] void encode_batch(const char* base, const uint32_t* starts, size_t count,
                                      IdWriter<Id>& writer) {
    prefetch_batch(base, starts, count);
    for (size_t i = 0; i < count; ++i) {
      // Only the likelier place of the set is looked at here, which the prefetch has brought;
      // everything else is encode_word()'s. Entries of both kinds begin alike.
      const auto& entry = *static_cast<const typename Caches::Ascii::Entry*>(places_[i]);
      const bool is_known = entry.key == keys_[i] && segmenter_.may_pass(writer.end());
      if (is_known && entry.has_ids()) {
        put(entry.ids.data(), entry.count, entry.ids.size(), writer);
      } else if (const auto& wide = reinterpret_cast<const typename Caches::Wide::Entry&>(entry);
                 is_known && !entry.key.is_ascii() && wide.has_ids()) {
        put(wide.ids.data(), wide.count, wide.ids.size(), writer);
      } else {
        encode_word({base + starts[i], base + starts[i + 1]}, writer);
      }
    }
  }

  [[gnu::noinline]] void prefetch_batch(const char* base, const uint32_t* starts, size_t count) {
    const auto prefetch = [this](std::string_view word, const ShortKey& key) {
      return caches_.prefetch(word, key);
    };
    tokenizer::fast::prefetch_all_words(prefetch_words_, base, starts, count, ascii_table_,
                                        wide_table_, keys_.data(), places_.data(), prefetch);
  }

  /// Copies `room` ids, of which `count` are the word's.
  void put(const Id* ids, size_t count, size_t room, IdWriter<Id>& writer) {
    Id* const out = writer.end();
    std::memcpy(out, ids, room * sizeof(Id));
    segmenter_.pass(count);
    writer.advance_to(out + count);
  }

  [[gnu::noinline]] void encode_word(std::string_view word, IdWriter<Id>& writer) {
    if (word.size() >= Caches::kMediumBytes) return encode_in_parts(word, writer);
    caches_.use_first(word, [&](auto& cache) { encode_with(cache, word, writer); });
  }

  /// A long word is rarely one that a cache knows, its parts are.
  void encode_in_parts(std::string_view word, IdWriter<Id>& writer) {
    for (size_t begin = 0; begin < word.size();) {
      const size_t end = split_.boundaries().next_cut(word, begin);
      const std::string_view part = word.substr(begin, end - begin);
      const bool is_long = part.size() >= Caches::kMediumBytes;
      is_long ? encode_long(part, writer) : encode_word(part, writer);
      begin = end;
    }
  }

  /// A word that does not always give the same ids (is_fixed()) or gives too many is remembered as
  /// such, so that it is not looked for in vain twice. Without may_pass() even a known word is cut
  /// anew: the sum so far could change its segments.
  template <class Cache>
  void encode_with(Cache& cache, std::string_view word, IdWriter<Id>& writer) {
    const typename Cache::Key key(word.data(), word.size());
    const uint64_t hash = key.hash();
    const typename Cache::Entry* const entry = cache.find(key, hash);
    if (entry != nullptr && !entry->has_ids()) {
      return encode_with(caches_.after(cache), word, writer);
    }
    if (entry != nullptr && segmenter_.may_pass(writer.end())) {
      return put(entry->ids.data(), entry->count, entry->ids.size(), writer);
    }
    const std::span<const Id> ids = segment(word, writer);
    if (entry != nullptr) return;
    if (is_fixed(word)) {
      caches_.learn(word, ids);
    } else {
      cache.insert_without_ids(key, hash);
    }
  }

  void encode_with(typename Caches::Long&, std::string_view word, IdWriter<Id>& writer) {
    encode_long(word, writer);
  }

  void encode_long(std::string_view word, IdWriter<Id>& writer) {
    // Longer ones are rarely met twice, and would push others out.
    const bool may_be_known = word.size() <= kMaxCachedBytes && segmenter_.may_pass(writer.end());
    const uint64_t hash = may_be_known ? tokenizer::fast::hash_word(word) : 0;
    if (may_be_known) {
      const std::span<const Id> known = caches_.longest().find(word, hash);
      if (!known.empty()) return put(known.data(), known.size(), known.size(), writer);
    }
    const std::span<const Id> ids = segment(word, writer);
    if (may_be_known && is_fixed(word)) caches_.longest().insert(word, hash, ids);
  }

  /// Writes the word's ids and returns them.
  std::span<const Id> segment(std::string_view word, IdWriter<Id>& writer) {
    const Id* const begin = writer.end();
    const char* at = word.data();
    segmenter_.catch_up(begin);
    for (const Segment& segment : segmenter_.segment(word)) {
      if (segment.id == Segment::kUnknown) {
        writer.unknown(form_.normalized({at, segment.size}));
      } else {
        writer.piece(segment.id);
      }
      at += segment.size;
    }
    return {begin, writer.end()};
  }

  /// Whether the word that segment() had last has its ids wherever it stands. Runs of unknown
  /// characters, of which one id is written, go beyond words.
  bool is_fixed(std::string_view word) {
    return (model_.file().byte_fallback || !segmenter_.has_unknown()) && segmenter_.is_fixed(word);
  }

  const Model& model_;
  const SpaceForm form_;
  const tokenizer::fast::WordSplit& split_;
  const tokenizer::fast::WordScanner scan_;
  const tokenizer::fast::PrefetchWords prefetch_words_;
  TextNormalizer normalizer_;
  Segmenter segmenter_;
  Caches caches_;
  const tokenizer::fast::SetTable ascii_table_ = caches_.ascii_table();
  const tokenizer::fast::SetTable wide_table_ = caches_.wide_table();
  std::array<uint32_t, tokenizer::fast::kScanRoom> starts_;
  std::array<ShortKey, kBatch> keys_;
  std::array<const void*, kBatch> places_;  // where the words of keys_ are looked for first
};

template <class Segmenter, class Table>
std::unique_ptr<TokenEncoder> make_encoder(const Model& model, const PlainCharacters& plain,
                                           const tokenizer::fast::WordSplit& split,
                                           const Table& table, DType dtype) {
  if (dtype == DType::kUint16) {
    return std::make_unique<FastEncoder<uint16_t, Segmenter>>(model, plain, split, table);
  }
  return std::make_unique<FastEncoder<int32_t, Segmenter>>(model, plain, split, table);
}

/// The pieces of one type in SpaceForm.
std::vector<MergePairs::Piece> pieces_of(const Model& model, PieceType type) {
  const SpaceForm form(model.file().normalizer.escape_whitespaces);
  std::vector<MergePairs::Piece> found;
  for (size_t i = 0; i < model.pieces().size(); ++i) {
    const Piece& piece = model.pieces()[i];
    if (piece.type != type) continue;
    const std::optional<std::string> text = form.of_piece(piece.text);
    if (text) found.push_back({*text, static_cast<int32_t>(i), score_of(piece)});
  }
  return found;
}

bool is_covered(const Model& model) {
  if (model.file().type == ModelType::kUnigram) return true;
  const auto is_unused = [](const Piece& piece) {
    return piece.type == PieceType::kUnused && !is_nul_piece(piece);
  };
  return model.file().type == ModelType::kBpe &&
         std::none_of(model.pieces().begin(), model.pieces().end(), is_unused);
}

}  // namespace

std::optional<FastModel> FastModel::build(const Model& model) {
  if (!is_covered(model)) return std::nullopt;
  const std::vector<MergePairs::Piece> pieces = pieces_of(model, PieceType::kNormal);
  const std::vector<MergePairs::Piece> symbols = pieces_of(model, PieceType::kUserDefined);
  std::vector<UnigramTable::Piece> all;
  std::vector<std::string_view> texts;
  for (const auto* const some : {&pieces, &symbols}) {
    for (const MergePairs::Piece& piece : *some) {
      all.push_back({piece.text, piece.id, piece.score});
      texts.push_back(piece.text);
    }
  }
  using tokenizer::fast::SpaceMark;
  FastModel fast(model, tokenizer::fast::WordSplit(texts, SpaceMark::kSpace));
  if (model.file().type == ModelType::kUnigram) {
    std::vector<int32_t> byte_ids;
    for (int byte = 0; model.file().byte_fallback && byte < 256; ++byte) {
      byte_ids.push_back(model.byte_id(static_cast<unsigned char>(byte)));
    }
    fast.unigram_.emplace(all, score_of_unknown(model.pieces()), byte_ids);
  } else {
    fast.bpe_.emplace(pieces, symbols);
  }
  return fast;
}

std::unique_ptr<TokenEncoder> FastModel::new_encoder(DType dtype) const {
  if (bpe_) return make_encoder<BpeSegmenter>(*model_, plain_, split_, *bpe_, dtype);
  return make_encoder<UnigramSegmenter>(*model_, plain_, split_, *unigram_, dtype);
}

}  // namespace meg::tokenizer::sentencepiece::fast
