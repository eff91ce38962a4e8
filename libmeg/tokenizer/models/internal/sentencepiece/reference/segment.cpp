#include "libmeg/tokenizer/models/internal/sentencepiece/reference/segment.h"

#include "libmeg/text/utf8.h"
#include "libmeg/tokenizer/models/internal/sentencepiece/reference/bpe.h"
#include "libmeg/tokenizer/models/internal/sentencepiece/reference/viterbi.h"

namespace meg::tokenizer::sentencepiece::reference {

namespace {

Segment whole(const Model& model, std::string_view text) {
  const int32_t id = model.find_ordinary(text).value_or(Segment::kUnknown);
  const bool used = id >= 0 && is_used(model.pieces()[static_cast<size_t>(id)]);
  return {text, used ? id : Segment::kUnknown};
}

std::vector<Segment> characters(const Model& model, std::string_view text) {
  std::vector<Segment> found;
  while (!text.empty()) {
    size_t size = model.user_symbols().longest_prefix(text, kMaxSymbolMatches);
    if (size == 0) size = text::character_size(text[0]);
    found.push_back(whole(model, text.substr(0, size)));
    text.remove_prefix(size);
  }
  return found;
}

/// A word begins with each space symbol.
std::vector<Segment> words(const Model& model, std::string_view text) {
  std::vector<Segment> found;
  while (!text.empty()) {
    const size_t first = text::character_size(text[0]);
    const std::string_view word = text.substr(0, text.find(kSpaceSymbol, first));
    found.push_back(whole(model, word));
    text.remove_prefix(word.size());
  }
  return found;
}

}  // namespace

std::vector<Segment> segments(const Model& model, std::string_view normalized) {
  switch (model.file().type) {
    case ModelType::kUnigram:
      return viterbi(model, normalized);
    case ModelType::kBpe:
      return merge(model, normalized);
    case ModelType::kWord:
      return words(model, normalized);
    case ModelType::kChar:
      break;
  }
  return characters(model, normalized);
}

}  // namespace meg::tokenizer::sentencepiece::reference
