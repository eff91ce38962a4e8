#include "libmeg/tokenizer/sentencepiece/internal/fast/fast_encoder.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "libmeg/tokenizer/bpe/internal/fast/word_cache.h"
#include "libmeg/tokenizer/sentencepiece/internal/fast/bpe.h"
#include "libmeg/tokenizer/sentencepiece/internal/fast/space_form.h"
#include "libmeg/tokenizer/sentencepiece/internal/fast/text_normalizer.h"
#include "libmeg/tokenizer/sentencepiece/internal/id_writer.h"
#include "libmeg/tokenizer/sentencepiece/internal/unigram_scores.h"

namespace meg::tokenizer::sentencepiece::fast {

namespace {

/// Encodes the words of normalized texts, which it remembers. Segmenter: BpeSegmenter or
/// UnigramSegmenter.
template <class Id, class Segmenter>
class FastEncoder : public TokenEncoder {
 public:
  template <class Table>
  FastEncoder(const Model& model, const PlainCharacters& plain, const WordSplit& split,
              const Table& table)
      : model_(model),
        form_(model.file().normalizer.escape_whitespaces),
        split_(split),
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
    const char* word = normalized.data();
    const char* const end = word + normalized.size();
    while (word < end) word = encode_batch(word, end, writer);
    tokens.commit(writer.end() - begin);
    return {};
  }

 private:
  using ShortCache = tokenizer::fast::WordCache<Id, 16, 32, size_t{1} << 18>;
  using MediumCache = tokenizer::fast::WordCache<Id, 32, 64, size_t{1} << 16>;
  using ShortKey = tokenizer::fast::WordKey<16>;

  static constexpr size_t kLongSlots = size_t{1} << 16;
  static constexpr size_t kLongStoreBytes = size_t{4} << 20;
  static constexpr size_t kMaxCachedBytes = 256;
  static constexpr size_t kCopyRoom = MediumCache::kMaxIds;

  /// Words whose cache entries are prefetched together, so that the waits for memory overlap.
  static constexpr size_t kBatch = 64;

  struct Asked {
    ShortKey key;  // of a longer word: one that no word has
    const typename ShortCache::Entry* place;
    const char* word;
  };

  const char* encode_batch(const char* word, const char* end, IdWriter<Id>& writer) {
    size_t count = 0;
    for (; count < kBatch && word < end; ++count) {
      const char* const next = split_.end_of_word(word, end);
      const ShortKey key(word, std::min<size_t>(static_cast<size_t>(next - word), 16));
      asked_[count] = {key, short_.first_place(key.hash()), word};
      __builtin_prefetch(asked_[count].place);
      word = next;
    }
    for (size_t i = 0; i < count; ++i) {
      const Asked& asked = asked_[i];
      // Only the likelier place of the set is looked at here, which the prefetch has brought;
      // everything else is encode_word()'s.
      if (asked.place->key == asked.key && asked.place->has_ids() &&
          segmenter_.may_pass(writer.end())) {
        put(asked.place->ids.data(), asked.place->count, asked.place->ids.size(), writer);
      } else {
        const char* const word_end = i + 1 < count ? asked_[i + 1].word : word;
        encode_word({asked.word, word_end}, writer);
      }
    }
    return word;
  }

  /// Copies `room` ids, of which `count` are the word's.
  void put(const Id* ids, size_t count, size_t room, IdWriter<Id>& writer) {
    Id* const out = writer.end();
    std::memcpy(out, ids, room * sizeof(Id));
    segmenter_.pass(count);
    writer.advance_to(out + count);
  }

  [[gnu::noinline]] void encode_word(std::string_view word, IdWriter<Id>& writer) {
    if (word.size() < 16) {
      encode_with(short_, word, writer);
    } else if (word.size() < 32) {
      encode_with(medium_, word, writer);
    } else {
      encode_long(word, writer);
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
    if (entry != nullptr && !entry->has_ids()) return encode_long(word, writer);
    if (entry != nullptr && segmenter_.may_pass(writer.end())) {
      return put(entry->ids.data(), entry->count, entry->ids.size(), writer);
    }
    const std::span<const Id> ids = segment(word, writer);
    if (entry != nullptr) return;
    if (!is_fixed(word)) {
      cache.insert_without_ids(key, hash);
    } else if (!cache.insert(key, hash, ids)) {
      long_.insert(word, tokenizer::fast::hash_word(word), ids);
    }
  }

  void encode_long(std::string_view word, IdWriter<Id>& writer) {
    // Longer ones are rarely met twice, and would push others out.
    const bool may_be_known = word.size() <= kMaxCachedBytes && segmenter_.may_pass(writer.end());
    const uint64_t hash = may_be_known ? tokenizer::fast::hash_word(word) : 0;
    if (may_be_known) {
      const std::span<const Id> known = long_.find(word, hash);
      if (!known.empty()) return put(known.data(), known.size(), known.size(), writer);
    }
    const std::span<const Id> ids = segment(word, writer);
    if (may_be_known && is_fixed(word)) long_.insert(word, hash, ids);
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
  const WordSplit& split_;
  TextNormalizer normalizer_;
  Segmenter segmenter_;
  ShortCache short_;
  MediumCache medium_;
  tokenizer::fast::LongWordCache<Id> long_{kLongSlots, kLongStoreBytes};
  std::array<Asked, kBatch> asked_;
};

template <class Segmenter, class Table>
std::unique_ptr<TokenEncoder> make_encoder(const Model& model, const PlainCharacters& plain,
                                           const WordSplit& split, const Table& table,
                                           DType dtype) {
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
  std::vector<std::string> texts;
  for (const auto* const some : {&pieces, &symbols}) {
    for (const MergePairs::Piece& piece : *some) {
      all.push_back({piece.text, piece.id, piece.score});
      texts.push_back(piece.text);
    }
  }
  FastModel fast(model, WordSplit(texts));
  if (model.file().type == ModelType::kUnigram) {
    fast.unigram_.emplace(all, score_of_unknown(model.pieces()));
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
