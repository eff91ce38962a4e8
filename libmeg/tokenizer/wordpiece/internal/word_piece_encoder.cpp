#include "libmeg/tokenizer/wordpiece/internal/word_piece_encoder.h"

#include <cstring>
#include <span>
#include <string>

#include "libmeg/text/utf8.h"
#include "libmeg/tokenizer/bpe/internal/fast/word_cache.h"
#include "libmeg/tokenizer/wordpiece/internal/fast/word_scanner.h"
#include "libmeg/tokenizer/wordpiece/internal/reference/basic_words.h"

namespace meg::tokenizer::wordpiece {

namespace {

class ReferenceEncoder : public TokenEncoder {
 public:
  ReferenceEncoder(const WordPieceModel& model, bool lower_case)
      : model_(model), lower_case_(lower_case) {}

  void encode(std::string_view text, TokenBuffer& tokens) override {
    for (const std::u32string& word : reference::basic_words(text, lower_case_)) {
      std::string bytes;
      for (const char32_t character : word) text::append_code_point(character, bytes);
      model_.segment(bytes, word.size(), [&tokens](int32_t id) { tokens.push_back(id); });
    }
  }

 private:
  const WordPieceModel& model_;
  const bool lower_case_;
};

template <class Id>
class FastEncoder : public TokenEncoder {
 public:
  FastEncoder(const WordPieceModel& model, bool lower_case) : model_(model), scanner_(lower_case) {}

  void encode(std::string_view text, TokenBuffer& tokens) override {
    scanner_.scan(text, [&](std::string_view word, size_t characters) {
      // A byte gives at most one id; entries are copied whole.
      Id* const out = tokens.grow<Id>(static_cast<int64_t>(word.size() + MediumCache::kMaxIds));
      Id* const end = word.size() < 16   ? encode_with(short_, word, characters, out)
                      : word.size() < 32 ? encode_with(medium_, word, characters, out)
                                         : segment(word, characters, out);
      tokens.commit(end - out);
    });
  }

 private:
  using ShortCache = tokenizer::fast::WordCache<Id, 16, 32>;
  using MediumCache = tokenizer::fast::WordCache<Id, 32, 64>;

  static constexpr size_t kShortSets = size_t{1} << 16;
  static constexpr size_t kMediumSets = size_t{1} << 14;

  /// Returns where the ids of the next word go.
  template <class Cache>
  Id* encode_with(Cache& cache, std::string_view word, size_t characters, Id* out) {
    const typename Cache::Key key(word.data(), word.size());
    const uint64_t hash = key.hash();
    const typename Cache::Entry* const entry = cache.find(key, hash);
    if (entry != nullptr && entry->has_ids()) {
      std::memcpy(out, entry->ids.data(), sizeof(entry->ids));
      return out + entry->count;
    }
    Id* const end = segment(word, characters, out);
    if (entry == nullptr) cache.insert(key, hash, {out, end});
    return end;
  }

  Id* segment(std::string_view word, size_t characters, Id* out) const {
    model_.segment(word, characters, [&out](int32_t id) { *out++ = static_cast<Id>(id); });
    return out;
  }

  const WordPieceModel& model_;
  fast::WordScanner scanner_;
  ShortCache short_{kShortSets};
  MediumCache medium_{kMediumSets};
};

}  // namespace

std::unique_ptr<TokenEncoder> new_reference_encoder(const WordPieceModel& model, bool lower_case,
                                                    DType) {
  return std::make_unique<ReferenceEncoder>(model, lower_case);
}

std::unique_ptr<TokenEncoder> new_fast_encoder(const WordPieceModel& model, bool lower_case,
                                               DType dtype) {
  if (dtype == DType::kUint16) return std::make_unique<FastEncoder<uint16_t>>(model, lower_case);
  return std::make_unique<FastEncoder<int32_t>>(model, lower_case);
}

}  // namespace meg::tokenizer::wordpiece
