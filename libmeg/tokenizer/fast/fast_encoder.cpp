#include "libmeg/tokenizer/fast/fast_encoder.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "libmeg/tokenizer/fast/word_cache.h"
#include "libmeg/tokenizer/fast/word_merger.h"
#include "libmeg/tokenizer/fast/word_scan.h"

namespace meg::fast {
namespace {

template <class Id>
class FastEncoder : public TokenEncoder {
 public:
  FastEncoder(const MergeTable& table, InstructionSet set)
      : table_(table), merger_(table), scan_(word_scanner(set)) {}

  void encode(std::string_view text, TokenBuffer& tokens) override {
    if (text.empty()) return;
    // Every byte gives at most one id; entries are copied whole.
    Id* const begin = tokens.grow<Id>(static_cast<int64_t>(text.size() + kCopyRoom));
    Id* out = begin;
    WordScan scan(text);
    const char* word = text.data();
    while (scan.position < scan.end) {
      const char* const base = scan.position;
      const size_t count = scan_(scan, starts_.data());
      if (count == 0) continue;
      // The first start ends the word before it, if this is not the start of the text.
      const char* const first = base + starts_[0];
      if (first != word) out = encode_word({word, first}, out);
      for (size_t i = 0; i + 1 < count; i += kBatch) {
        out = encode_batch(base, &starts_[i], std::min(kBatch, count - 1 - i), out);
      }
      word = base + starts_[count - 1];
    }
    out = encode_word({word, scan.end}, out);
    tokens.commit(out - begin);
  }

 private:
  using ShortCache = WordCache<Id, 16>;
  using MediumCache = WordCache<Id, 32>;

  static constexpr size_t kShortSets = size_t{1} << 18;
  static constexpr size_t kMediumSets = size_t{1} << 16;
  static constexpr size_t kLongSlots = size_t{1} << 16;
  static constexpr size_t kLongStoreBytes = size_t{4} << 20;
  static constexpr size_t kMaxCachedBytes = 1024;
  static constexpr size_t kCopyRoom = MediumCache::kMaxIds;

  /// Words whose cache entries are asked for together, so that the waits for memory overlap.
  static constexpr size_t kBatch = 32;

  struct Asked {
    typename ShortCache::Key key;
    uint64_t hash;
  };

  /// The words [starts[i], starts[i + 1]) for i < count.
  Id* encode_batch(const char* base, const uint32_t* starts, size_t count, Id* out) {
    for (size_t i = 0; i < count; ++i) {
      const uint32_t length = std::min<uint32_t>(starts[i + 1] - starts[i], 15);
      asked_[i].key = typename ShortCache::Key(base + starts[i], length);
      asked_[i].hash = asked_[i].key.hash();
      short_.prefetch(asked_[i].hash);
    }
    for (size_t i = 0; i < count; ++i) {
      const char* const word = base + starts[i];
      const uint32_t length = starts[i + 1] - starts[i];
      out = length < 16 ? encode_short({word, length}, asked_[i].key, asked_[i].hash, out)
                        : encode_longer({word, length}, out);
    }
    return out;
  }

  // Each of these writes the word's ids to out, and perhaps up to kCopyRoom further ones, and
  // returns where the next go.

  Id* encode_word(std::string_view word, Id* out) {
    if (word.size() >= 16) return encode_longer(word, out);
    const typename ShortCache::Key key(word.data(), word.size());
    return encode_short(word, key, key.hash(), out);
  }

  Id* encode_short(std::string_view word, const typename ShortCache::Key& key, uint64_t hash,
                   Id* out) {
    const typename ShortCache::Entry* entry = short_.find(key, hash);
    if (entry == nullptr) return learn_short(word, key, hash, out);
    if (static_cast<size_t>(entry->count) > ShortCache::kMaxIds) return encode_medium(word, out);
    std::memcpy(out, entry->ids.data(), sizeof(entry->ids));
    return out + entry->count;
  }

  [[gnu::noinline]] Id* learn_short(std::string_view word, const typename ShortCache::Key& key,
                                    uint64_t hash, Id* out) {
    Id* const end = merge(word, out);
    const std::span<const Id> ids(out, end);
    if (short_.insert(key, hash, ids)) return end;
    const typename MediumCache::Key medium_key(word.data(), word.size());
    medium_.insert(medium_key, medium_key.hash(), ids);
    return end;
  }

  [[gnu::noinline]] Id* encode_longer(std::string_view word, Id* out) {
    return word.size() < 32 ? encode_medium(word, out) : encode_long(word, out);
  }

  [[gnu::noinline]] Id* encode_medium(std::string_view word, Id* out) {
    const typename MediumCache::Key key(word.data(), word.size());
    const uint64_t hash = key.hash();
    const typename MediumCache::Entry* entry = medium_.find(key, hash);
    if (entry != nullptr) {
      if (static_cast<size_t>(entry->count) > MediumCache::kMaxIds) return encode_long(word, out);
      std::memcpy(out, entry->ids.data(), sizeof(entry->ids));
      return out + entry->count;
    }
    Id* const end = merge(word, out);
    if (!medium_.insert(key, hash, {out, end})) long_.insert(word, hash_word(word), {out, end});
    return end;
  }

  Id* encode_long(std::string_view word, Id* out) {
    if (word.size() > kMaxCachedBytes) return merge(word, out);
    const uint64_t hash = hash_word(word);
    const std::span<const Id> known = long_.find(word, hash);
    if (!known.empty()) return std::copy(known.begin(), known.end(), out);
    Id* const end = merge(word, out);
    long_.insert(word, hash, {out, end});
    return end;
  }

  Id* merge(std::string_view word, Id* out) {
    if (word.size() <= WordMerger::kWindowBytes) return put_ids(merger_.merge(word), out);
    Id* end = out;
    const auto emit = [&](std::span<const uint32_t> pieces) { end = put_ids(pieces, end); };
    if (merger_.merge_windows(word, emit)) return end;
    return put_ids(merger_.merge(word), out);
  }

  Id* put_ids(std::span<const uint32_t> pieces, Id* out) const {
    for (const uint32_t piece : pieces) *out++ = static_cast<Id>(table_.token_id(piece));
    return out;
  }

  const MergeTable& table_;
  WordMerger merger_;
  WordScanner scan_;
  ShortCache short_{kShortSets};
  MediumCache medium_{kMediumSets};
  LongWordCache<Id> long_{kLongSlots, kLongStoreBytes};
  std::array<uint32_t, kScanRoom> starts_;
  std::array<Asked, kBatch> asked_;
};

}  // namespace

std::unique_ptr<TokenEncoder> new_fast_encoder(const MergeTable& table, DType dtype,
                                               InstructionSet set) {
  if (dtype == DType::kUint16) return std::make_unique<FastEncoder<uint16_t>>(table, set);
  return std::make_unique<FastEncoder<int32_t>>(table, set);
}

}  // namespace meg::fast
