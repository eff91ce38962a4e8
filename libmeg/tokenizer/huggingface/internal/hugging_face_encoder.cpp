#include "libmeg/tokenizer/huggingface/internal/hugging_face_encoder.h"

#include "libmeg/text/text_padding.h"

namespace meg::tokenizer {
namespace {

/// Appends what encoders may read behind a text, and returns the text.
std::string_view padded(std::string& text) {
  const size_t size = text.size();
  text.append(text::kTextPadding, '\0');
  return std::string_view(text).substr(0, size);
}

/// Cuts text at the tokens that `finder` finds: token(id) for each of them, between(part) for what
/// lies between, which is not empty.
template <class Between, class Token>
void cut(const AddedTokenFinder& finder, std::string_view text, const Between& between,
         const Token& token) {
  size_t at = 0;
  AddedTokenFinder::Match match;
  while (finder.find(text, at, match)) {
    if (match.begin > at) between(text.substr(at, match.begin - at));
    token(match.id);
    at = match.end;
  }
  if (at < text.size()) between(text.substr(at));
}

}  // namespace

void HuggingFaceEncoder::encode(std::string_view text, TokenBuffer& tokens) {
  for (const int32_t id : parts_.prefix) tokens.push_back(id);
  start_ = tokens.size();
  if (parts_.in_text.empty()) {
    if (!text.empty()) encode_segment(text, tokens);
  } else {
    cut(
        parts_.in_text, text, [&](std::string_view part) { encode_segment(part, tokens); },
        [&](int32_t id) { tokens.push_back(id); });
  }
  for (const int32_t id : parts_.suffix) tokens.push_back(id);
}

void HuggingFaceEncoder::encode_segment(std::string_view text, TokenBuffer& tokens) {
  // Metaspace's "first" means the start of the whole text, which no added token is in front of.
  const bool is_first = tokens.size() == start_;
  if (parts_.normalizer != nullptr && !parts_.normalizer->keeps(text)) {
    normalized_.assign(text);
    parts_.normalizer->apply(normalized_);
    text = padded(normalized_);
  }
  if (parts_.in_normalized.empty()) {
    encode_normalized(text, is_first, tokens);
    return;
  }
  bool is_start = is_first;
  cut(
      parts_.in_normalized, text,
      [&](std::string_view part) {
        encode_normalized(part, is_start, tokens);
        is_start = false;
      },
      [&](int32_t id) {
        tokens.push_back(id);
        is_start = false;
      });
}

void HuggingFaceEncoder::encode_normalized(std::string_view text, bool is_first,
                                           TokenBuffer& tokens) {
  if (text.empty()) return;
  if (!parts_.pre_tokenizer.steps.empty()) {
    split(text, 0, tokens);
  } else if (parts_.pre_tokenizer.metaspace) {
    encode_metaspaced(text, is_first, tokens);
  } else {
    encode_spaced(text, tokens);
  }
}

void HuggingFaceEncoder::split(std::string_view text, size_t step, TokenBuffer& tokens) {
  if (step == parts_.pre_tokenizer.steps.size()) {
    encode_spaced(text, tokens);
    return;
  }
  split_text(parts_.pre_tokenizer.steps[step], text,
             [&](std::string_view part) { split(part, step + 1, tokens); });
}

void HuggingFaceEncoder::encode_spaced(std::string_view text, TokenBuffer& tokens) {
  if (parts_.pre_tokenizer.add_prefix_space && text[0] != ' ') {
    spaced_.assign(1, ' ').append(text);
    text = padded(spaced_);
  }
  words_->encode(text, tokens);
}

void HuggingFaceEncoder::encode_metaspaced(std::string_view text, bool is_first,
                                           TokenBuffer& tokens) {
  const Metaspace& metaspace = *parts_.pre_tokenizer.metaspace;
  spaced_.clear();
  for (const char c : text) {
    if (c == ' ') {
      spaced_ += metaspace.replacement;
    } else {
      spaced_.push_back(c);
    }
  }
  const bool prepends = metaspace.prepend == Metaspace::Prepend::kAlways ||
                        (metaspace.prepend == Metaspace::Prepend::kFirst && is_first);
  if (prepends && !spaced_.starts_with(metaspace.replacement)) {
    spaced_.insert(0, metaspace.replacement);
  }
  words_->encode(padded(spaced_), tokens);
}

}  // namespace meg::tokenizer
