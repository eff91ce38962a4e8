#include "libmeg/tokenizer/huggingface/internal/added_tokens.h"

#include <algorithm>
#include <cstring>

#include "libmeg/text/utf8.h"
#include "libmeg/tokenizer/internal/character_class.h"
#include "libmeg/tokenizer/internal/step_class.h"

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
  std::stable_sort(tokens_.begin(), tokens_.end(), [](const AddedToken& a, const AddedToken& b) {
    return a.matched.size() > b.matched.size();
  });
  for (uint32_t i = 0; i < tokens_.size(); ++i) {
    std::vector<uint32_t>& same = by_byte_[static_cast<unsigned char>(tokens_[i].matched[0])];
    if (same.empty()) first_bytes_.push_back(tokens_[i].matched[0]);
    same.push_back(i);
  }
}

const AddedToken* AddedTokenFinder::longest_at(std::string_view text) const {
  for (const uint32_t i : by_byte_[static_cast<unsigned char>(text[0])]) {
    if (text.starts_with(tokens_[i].matched)) return &tokens_[i];
  }
  return nullptr;
}

bool AddedTokenFinder::find_next(std::string_view text, Match& match) const {
  if (tokens_.empty()) return false;
  const auto next_candidate = [&](size_t at) {
    return first_bytes_.size() == 1 ? text.find(first_bytes_[0], at)
                                    : text.find_first_of(first_bytes_, at);
  };
  for (size_t at = next_candidate(match.next); at != std::string_view::npos;) {
    const AddedToken* const token = longest_at(text.substr(at));
    if (token == nullptr) {
      at = next_candidate(at + 1);
      continue;
    }
    const size_t end = at + token->matched.size();
    if ((token->special && splits_special_tokens_) ||
        (token->single_word && !stands_alone(text, at, end))) {
      at = next_candidate(end);
      continue;
    }
    // Whitespace that an earlier token has taken is not taken again.
    match.id = token->id;
    match.begin = token->lstrip ? std::max(whitespace_begin(text, at), match.end) : at;
    match.next = end;
    match.end = token->rstrip ? whitespace_end(text, end) : end;
    return true;
  }
  return false;
}

}  // namespace meg::tokenizer
