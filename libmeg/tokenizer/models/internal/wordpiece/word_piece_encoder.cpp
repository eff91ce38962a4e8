#include "libmeg/tokenizer/models/internal/wordpiece/word_piece_encoder.h"

#include <string>

#include "libmeg/text/utf8.h"
#include "libmeg/tokenizer/models/internal/wordpiece/fast/word_scanner.h"
#include "libmeg/tokenizer/models/internal/wordpiece/reference/basic_words.h"
#include "libmeg/tokenizer/words/internal/cached_words.h"

namespace meg::tokenizer::wordpiece {

namespace {

class ReferenceEncoder : public TokenEncoder {
 public:
  ReferenceEncoder(const WordPieceModel& model, bool lower_case)
      : model_(model), lower_case_(lower_case) {}

  Status encode(std::string_view text, TokenBuffer& tokens) override {
    for (const std::u32string& word : reference::basic_words(text, lower_case_)) {
      std::string bytes;
      for (const char32_t character : word) text::append_code_point(character, bytes);
      model_.segment(bytes, word.size(), [&tokens](int32_t id) { tokens.push_back(id); });
    }
    return {};
  }

 private:
  const WordPieceModel& model_;
  const bool lower_case_;
};

template <class Id>
class FastEncoder : public TokenEncoder {
 public:
  FastEncoder(const WordPieceModel& model, bool lower_case) : model_(model), scanner_(lower_case) {}

  Status encode(std::string_view text, TokenBuffer& tokens) override {
    scanner_.scan(text, [&](std::string_view word, size_t characters) {
      // There is at most an id a byte; what the cache knows is copied whole, beyond the word's ids.
      Id* const out = tokens.grow<Id>(static_cast<int64_t>(word.size() + Words::kCopyRoom));
      Id* const end = words_.encode(word, out, [&](std::string_view unknown, Id* to) {
        model_.segment(unknown, characters, [&to](int32_t id) { *to++ = static_cast<Id>(id); });
        return to;
      });
      tokens.commit(end - out);
    });
    return {};
  }

 private:
  using Words = tokenizer::fast::CachedWords<Id>;

  const WordPieceModel& model_;
  fast::WordScanner scanner_;
  Words words_;
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
