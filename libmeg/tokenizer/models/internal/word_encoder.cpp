#include "libmeg/tokenizer/models/internal/word_encoder.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "libmeg/tokenizer/words/internal/cached_words.h"

namespace meg::tokenizer {
namespace {

template <class Id>
class WordEncoder : public TokenEncoder {
 public:
  WordEncoder(const WordModel& model, fast::WordScanner scan)
      : segmenter_(model.new_segmenter()), scan_(scan) {}

  Status encode(std::string_view text, TokenBuffer& tokens) override {
    if (text.empty()) return {};
    const auto room = static_cast<int64_t>(text.size() + fast::CachedWords<Id>::kCopyRoom);
    Id* const begin = tokens.grow<Id>(room);
    Id* out = begin;
    fast::WordScan scan(text);
    const char* word = text.data();
    while (scan.position < scan.end) {
      const char* const base = scan.position;
      const size_t count = scan_(scan, starts_.data());
      for (size_t i = 0; i < count; ++i) {
        const char* const next = base + starts_[i];
        if (next != word) MEG_RETURN_IF_ERROR(encode_word({word, next}, out));
        word = next;
      }
    }
    MEG_RETURN_IF_ERROR(encode_word({word, scan.end}, out));
    tokens.commit(out - begin);
    return {};
  }

 private:
  /// Moves `out` past the ids of the word.
  Status encode_word(std::string_view word, Id*& out) {
    Status status;
    Id* const end = words_.encode(word, out, [&](std::string_view unknown, Id* to) -> Id* {
      ids_.clear();
      status = segmenter_->segment(unknown, ids_);
      if (!status.ok()) return nullptr;
      return std::transform(ids_.begin(), ids_.end(), to,
                            [](int32_t id) { return static_cast<Id>(id); });
    });
    out = end;
    return status;
  }

  const std::unique_ptr<WordSegmenter> segmenter_;
  const fast::WordScanner scan_;
  fast::CachedWords<Id> words_;
  std::vector<int32_t> ids_;
  std::array<uint32_t, fast::kScanRoom> starts_;
};

class ReferenceWordEncoder : public TokenEncoder {
 public:
  ReferenceWordEncoder(const WordModel& model,
                       std::function<size_t(std::string_view)> first_word_size)
      : segmenter_(model.new_segmenter()), first_word_size_(std::move(first_word_size)) {}

  Status encode(std::string_view text, TokenBuffer& tokens) override {
    while (!text.empty()) {
      const std::string_view word = text.substr(0, first_word_size_(text));
      std::vector<int32_t> ids;
      MEG_RETURN_IF_ERROR(segmenter_->segment(word, ids));
      for (const int32_t id : ids) tokens.push_back(id);
      text.remove_prefix(word.size());
    }
    return {};
  }

 private:
  const std::unique_ptr<WordSegmenter> segmenter_;
  const std::function<size_t(std::string_view)> first_word_size_;
};

}  // namespace

std::unique_ptr<TokenEncoder> new_word_encoder(const WordModel& model, DType dtype,
                                               fast::WordScanner scan) {
  if (dtype == DType::kUint16) return std::make_unique<WordEncoder<uint16_t>>(model, scan);
  return std::make_unique<WordEncoder<int32_t>>(model, scan);
}

std::unique_ptr<TokenEncoder> new_reference_word_encoder(
    const WordModel& model, std::function<size_t(std::string_view)> first_word_size) {
  return std::make_unique<ReferenceWordEncoder>(model, std::move(first_word_size));
}

}  // namespace meg::tokenizer
