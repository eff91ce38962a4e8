#include "libmeg/tokenizer/models/internal/bpe/fast/fast_encoder.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "libmeg/tokenizer/models/internal/bpe/fast/word_merger.h"
#include "libmeg/tokenizer/words/internal/vector_functions.h"
#include "libmeg/tokenizer/words/internal/word_caches.h"
#include "libmeg/tokenizer/words/internal/word_scan.h"
#include "libmeg/tokenizer/words/internal/word_split.h"

namespace meg::tokenizer::fast {
namespace {

template <class Id>
class FastEncoder : public TokenEncoder {
 public:
  FastEncoder(const BpeModel& model, const MergeTable& table, WordScanner scan,
              const WordSplit* split, PrefetchWords prefetch_words)
      : model_(model),
        table_(table),
        merger_(table),
        boundaries_(split == nullptr ? table.boundaries() : split->boundaries()),
        scan_(scan),
        split_(split),
        prefetch_words_(prefetch_words) {
    new_words_.reserve(kNewWords);
    short_words_.reserve(kNewWords);
    gaps_.reserve(kGaps);
  }

  Status encode(std::string_view text, TokenBuffer& tokens) override {
    if (text.empty()) return {};
    forget_new_words();  // of a text that was left for want of memory
    // Every byte gives at most one id; entries are copied whole.
    Id* const begin = tokens.grow<Id>(static_cast<int64_t>(text.size() + kCopyRoom));
    Id* out = begin;
    WordScan scan(text);
    if (split_ == nullptr && boundaries_.cuts()) scan.boundaries = &boundaries_;
    scan.split = split_;
    const char* word = text.data();
    while (scan.position < scan.end) {
      const char* const base = scan.position;
      const size_t count = scan_(scan, starts_.data());
      if (count == 0) continue;
      // The first start ends the word before it, if this is not the start of the text.
      const char* const first = base + starts_[0];
      if (first != word) out = encode_word({word, first}, out);
      word = base + starts_[count - 1];
      for (size_t i = 0; i + 1 < count; i += kBatch) {
        out = encode_batch(base, &starts_[i], std::min(kBatch, count - 1 - i), out);
      }
      // Fill them now, so that what has to be moved is little and near.
      out = fill_gaps(out);
    }
    out = fill_gaps(encode_word({word, scan.end}, out));
    tokens.commit(out - begin);
    return {};
  }

 private:
  using Caches = WordCaches<Id>;

  static constexpr size_t kMaxCachedBytes = Caches::Long::kStoreBytes / 8;
  static constexpr size_t kCopyRoom = Caches::kMaxIds;

  /// Words whose cache entries are prefetched together, so that the waits for memory overlap.
  static constexpr size_t kBatch = 256;

  // Most of the time goes into the next two functions. They are not inlined, so that what each word
  // needs has room in registers.

  /// The words [starts[i], starts[i + 1]) for i < count.
  [[gnu::noinline]] Id* encode_batch(const char* base, const uint32_t* starts, size_t count,
                                     Id* out) {
    prefetch_batch(base, starts, count);
    for (size_t i = 0; i < count; ++i) {
      // Of either kind of cache, as they begin alike.
      const auto& entry = *static_cast<const typename Caches::Ascii::Entry*>(places_[i]);
      const bool is_known = entry.key == keys_[i];
      if (is_known && entry.has_ids()) {
        out = copy_ids(entry, out);
      } else if (const auto& wide = reinterpret_cast<const typename Caches::Wide::Entry&>(entry);
                 is_known && !entry.key.is_ascii() && wide.has_ids()) {
        out = copy_ids(wide, out);
      } else {
        out = encode_word({base + starts[i], base + starts[i + 1]}, out);
      }
    }
    return out;
  }

  /// Prefetches the sets of those that have one.
  [[gnu::noinline]] void prefetch_batch(const char* base, const uint32_t* starts, size_t count) {
    const auto prefetch = [this](std::string_view word, const WordKey<16>& key) {
      return caches_.prefetch(word, key);
    };
    prefetch_all_words(prefetch_words_, base, starts, count, ascii_table_, wide_table_,
                       keys_.data(), places_.data(), prefetch);
  }

  // Each of these writes the word's ids to out, and perhaps up to kCopyRoom further ones, and
  // returns where the next go.

  [[gnu::noinline]] Id* encode_word(std::string_view word, Id* out) {
    if (word.size() >= Caches::kMediumBytes) return encode_in_parts(word, out);
    return caches_.use_first(word, [&](auto& cache) { return encode_with(cache, word, out); });
  }

  /// A long word is rarely one that a cache knows, its parts are.
  Id* encode_in_parts(std::string_view word, Id* out) {
    for (size_t begin = 0; begin < word.size();) {
      const size_t end = boundaries_.next_cut(word, begin);
      const std::string_view part = word.substr(begin, end - begin);
      const bool is_long = part.size() >= Caches::kMediumBytes;
      out = is_long ? encode_long(part, out) : encode_word(part, out);
      begin = end;
    }
    return out;
  }

  template <class Cache>
  Id* encode_with(Cache& cache, std::string_view word, Id* out) {
    const typename Cache::Key key(word.data(), word.size());
    const uint64_t hash = key.hash();
    const typename Cache::Entry* entry = cache.find(key, hash);
    if (entry == nullptr) return encode_new(cache, word, out);
    if (entry->has_ids()) return copy_ids(*entry, out);
    if (!entry->is_awaited()) return encode_with(caches_.after(cache), word, out);
    const size_t number = entry->awaited();
    const bool is_new = number < new_words_.size() && new_words_[number].text == word;
    return is_new ? leave_gap(number, out) : encode_new(cache, word, out);
  }

  Id* encode_with(typename Caches::Long&, std::string_view word, Id* out) {
    return encode_long(word, out);
  }

  // Words of no cache are merged many at a time, as merging one alone is mostly waiting for memory.
  // Until then a gap is left where the ids of each go, wide enough for one a byte.

  static constexpr size_t kNewWords = 64;
  static constexpr size_t kGaps = 256;

  struct NewWord {
    std::string_view text;
    std::array<Id, WordMerger::kShortBytes> ids;
    size_t count = 0;  // of ids, once it is merged
  };

  struct Gap {
    Id* begin;
    size_t word;  // in new_words_
  };

  template <class Cache>
  Id* encode_new(Cache& cache, std::string_view word, Id* out) {
    const std::optional<int32_t> id = table_.unmerged_word(word);
    if (id) return learned(word, out, put_id(*id, out));
    if (word.size() >= Caches::kShortBytes && boundaries_.next_cut(word, 0) < word.size()) {
      Id* const begin = fill_gaps(out);
      return learned(word, begin, fill_gaps(encode_in_parts(word, begin)));
    }
    if (model_.merges_characters()) {
      model_.start_pieces(word, start_pieces_);
      if (start_pieces_.empty()) return learned(word, out, out);
      short_words_.emplace_back(start_pieces_, table_);
    } else {
      short_words_.emplace_back(word, table_);
    }
    const typename Cache::Key key(word.data(), word.size());
    cache.await(key, key.hash(), new_words_.size());
    new_words_.emplace_back().text = word;
    return leave_gap(new_words_.size() - 1, out);
  }

  /// Remembers a word's ids, from begin to end. Returns end.
  Id* learned(std::string_view word, Id* begin, Id* end) {
    caches_.learn(word, {begin, end});
    return end;
  }

  Id* leave_gap(size_t word, Id* out) {
    gaps_.push_back({out, word});
    out += new_words_[word].text.size();
    return new_words_.size() == kNewWords || gaps_.size() == kGaps ? fill_gaps(out) : out;
  }

  Id* fill_gaps(Id* out) { return gaps_.empty() ? out : fill_gaps_up_to(out); }

  /// Merges the new words and puts their ids in the gaps, to which what follows, up to `end`, moves
  /// up. Returns where it ends then.
  [[gnu::noinline]] Id* fill_gaps_up_to(Id* end) {
    merger_.merge_together(short_words_);
    for (size_t i = 0; i < new_words_.size(); ++i) {
      NewWord& word = new_words_[i];
      short_words_[i].for_each([&](uint32_t piece) {
        word.ids[word.count++] = static_cast<Id>(table_.token_id(piece));
      });
      caches_.learn(word.text, {word.ids.data(), word.count});
    }
    Id* out = gaps_.front().begin;
    for (size_t i = 0; i < gaps_.size(); ++i) {
      const NewWord& word = new_words_[gaps_[i].word];
      Id* const behind = gaps_[i].begin + word.text.size();
      Id* const next = i + 1 < gaps_.size() ? gaps_[i + 1].begin : end;
      out = std::copy_n(word.ids.data(), word.count, out);
      out = std::copy(behind, next, out);
    }
    forget_new_words();
    return out;
  }

  void forget_new_words() {
    gaps_.clear();
    new_words_.clear();
    short_words_.clear();
  }

  template <class Entry>
  static Id* copy_ids(const Entry& entry, Id* out) {
    Id* const end = out + entry.count;
    std::memcpy(out, entry.ids.data(), sizeof(entry.ids));
    return end;
  }

  Id* encode_long(std::string_view word, Id* out) {
    // One such word must not take the place of thousands.
    if (word.size() > kMaxCachedBytes) return merge(word, out);
    const uint64_t hash = hash_word(word);
    const std::span<const Id> known = caches_.longest().find(word, hash);
    if (!known.empty()) return std::copy(known.begin(), known.end(), out);
    Id* const end = merge(word, out);
    caches_.longest().insert(word, hash, {out, end});
    return end;
  }

  Id* merge(std::string_view word, Id* out) {
    // Look before any merging, as tiktoken and `ignore_merges` have it.
    if (const std::optional<int32_t> id = table_.unmerged_word(word)) return put_id(*id, out);
    if (model_.merges_characters()) {
      model_.start_pieces(word, start_pieces_);
      return start_pieces_.empty() ? out : put_ids(merger_.merge(start_pieces_), out);
    }
    if (word.size() <= WordMerger::kWindowBytes) return put_ids(merger_.merge(word), out);
    Id* end = out;
    const auto emit = [&](std::span<const uint32_t> pieces) { end = put_ids(pieces, end); };
    if (merger_.merge_windows(word, emit)) return end;
    return put_ids(merger_.merge(word), out);
  }

  static Id* put_id(int32_t id, Id* out) {
    *out = static_cast<Id>(id);
    return out + 1;
  }

  Id* put_ids(std::span<const uint32_t> pieces, Id* out) const {
    for (const uint32_t piece : pieces) *out++ = static_cast<Id>(table_.token_id(piece));
    return out;
  }

  const BpeModel& model_;
  const MergeTable& table_;
  std::vector<int32_t> start_pieces_;
  WordMerger merger_;
  const MergeBoundaries& boundaries_;
  WordScanner scan_;
  const WordSplit* split_;
  PrefetchWords prefetch_words_;
  Caches caches_;
  const SetTable ascii_table_ = caches_.ascii_table();
  const SetTable wide_table_ = caches_.wide_table();
  std::array<uint32_t, kScanRoom> starts_;
  std::array<WordKey<16>, kBatch> keys_;
  std::array<const void*, kBatch> places_;  // where the words of keys_ are looked for first
  std::vector<NewWord> new_words_;
  std::vector<WordMerger::ShortWord> short_words_;  // of new_words_
  std::vector<Gap> gaps_;
};

}  // namespace

std::unique_ptr<TokenEncoder> new_fast_encoder(const BpeModel& model, const MergeTable& table,
                                               DType dtype, WordScanner scan, InstructionSet set,
                                               const WordSplit* split) {
  const PrefetchWords prefetch_words = vector_functions(set).prefetch_words;
  if (dtype == DType::kUint16) {
    return std::make_unique<FastEncoder<uint16_t>>(model, table, scan, split, prefetch_words);
  }
  return std::make_unique<FastEncoder<int32_t>>(model, table, scan, split, prefetch_words);
}

}  // namespace meg::tokenizer::fast
