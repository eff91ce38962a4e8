#include "libmeg/tokenizer/steps/internal/added_tokens.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "libmeg/text/utf8.h"
#include "libmeg/tokenizer/unicode/internal/character_class.h"
#include "libmeg/tokenizer/unicode/internal/step_class.h"

// Added tokens are found in a text before it is split or normalized. As in tokenizers the first
// match from the left wins, and of several at one place the longest. Texts have few of them: the
// search looks for the bytes that they begin with.

namespace meg::tokenizer {
namespace {

size_t character_before(std::string_view text, size_t at) {
  do {
    --at;
  } while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80);
  return at;
}

/// \w
bool is_word(std::string_view text, size_t at) {
  return is_of(StepClass::kWord, text::decode_code_point(text.substr(at)).code_point);
}

bool stands_alone(std::string_view text, size_t begin, size_t end) {
  if (begin > 0 && is_word(text, character_before(text, begin))) return false;
  return end == text.size() || !is_word(text, end);
}

size_t whitespace_begin(std::string_view text, size_t end) {
  while (end > 0) {
    const size_t at = character_before(text, end);
    if (!is_space(text::decode_code_point(text.substr(at)).code_point)) break;
    end = at;
  }
  return end;
}

size_t whitespace_end(std::string_view text, size_t begin) {
  while (begin < text.size()) {
    const text::DecodedCodePoint next = text::decode_code_point(text.substr(begin));
    if (!is_space(next.code_point)) break;
    begin += next.size;
  }
  return begin;
}

}  // namespace

AddedTokenFinder::AddedTokenFinder(std::vector<AddedToken> tokens, bool splits_special_tokens)
    : tokens_(std::move(tokens)), splits_special_tokens_(splits_special_tokens) {
  std::vector<PieceTrie::Entry> texts;
  for (const AddedToken& token : tokens_) {
    first_bytes_.add(token.matched[0]);
    texts.emplace_back(token.matched, static_cast<int32_t>(texts.size()));
  }
  texts_ = PieceTrie(std::move(texts));
}

const AddedToken* AddedTokenFinder::Search::longest_at(size_t at) const {
  int32_t number = 0;
  const size_t size =
      finder_.texts_.longest_prefix(text_.substr(at), std::numeric_limits<int>::max(), &number);
  return size > 0 ? &finder_.tokens_[static_cast<size_t>(number)] : nullptr;
}

std::optional<AddedTokenFinder::Match> AddedTokenFinder::Search::next() {
  for (size_t at = at_; (at = candidates_.next(at)) != std::string_view::npos;) {
    const AddedToken* const token = longest_at(at);
    if (token == nullptr) {
      ++at;
      continue;
    }
    const size_t end = at + token->matched.size();
    if ((token->special && finder_.splits_special_tokens_) ||
        (token->single_word && !stands_alone(text_, at, end))) {
      at = end;
      continue;
    }
    // Whitespace that an earlier token has taken is not taken again.
    const size_t begin = token->lstrip ? std::max(whitespace_begin(text_, at), taken_end_) : at;
    at_ = end;
    taken_end_ = token->rstrip ? whitespace_end(text_, end) : end;
    return Match{begin, taken_end_, token->id};
  }
  at_ = text_.size();
  return std::nullopt;
}

}  // namespace meg::tokenizer
