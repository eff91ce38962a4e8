#include "libmeg/tokenizer/steps/internal/hugging_face_encoder.h"

#include <optional>

#include "libmeg/text/text_padding.h"
#include "libmeg/text/utf8.h"
#include "libmeg/tokenizer/steps/internal/replace_byte.h"

namespace meg::tokenizer {
namespace {

/// Appends what encoders may read past a text, and returns the text.
std::string_view padded(std::string& text) {
  const size_t size = text.size();
  text.append(text::kTextPadding, '\0');
  return std::string_view(text).substr(0, size);
}

/// Cuts text at the tokens that `finder` finds, whose ids it appends: between(part) for what lies
/// between, which is not empty.
template <class Between>
Status cut(const AddedTokenFinder& finder, std::string_view text, TokenBuffer& tokens,
           const Between& between) {
  size_t at = 0;
  AddedTokenFinder::Search search(finder, text);
  while (const std::optional<AddedTokenFinder::Match> match = search.next()) {
    if (match->begin > match->end) {
      return Status(StatusCode::kInvalidArgument,
                    "text: expected added tokens apart, found one of whitespace inside the "
                    "whitespace that the token before it takes, which tokenizers fails on, too");
    }
    if (match->begin > at) MEG_RETURN_IF_ERROR(between(text.substr(at, match->begin - at)));
    // Where the token before it took all of it, the token is dropped.
    if (match->begin < match->end) tokens.push_back(match->id);
    at = match->end;
  }
  return at < text.size() ? between(text.substr(at)) : Status();
}

}  // namespace

Status HuggingFaceEncoder::encode(std::string_view text, TokenBuffer& tokens) {
  for (const int32_t id : parts_.prefix) tokens.push_back(id);
  MEG_RETURN_IF_ERROR(cut(parts_.in_text, text, tokens, [&](std::string_view part) {
    const bool is_first = part.data() == text.data();
    return encode_segment(part, is_first ? text::decode_code_point(part).size : 0, tokens);
  }));
  for (const int32_t id : parts_.suffix) tokens.push_back(id);
  return {};
}

Status HuggingFaceEncoder::encode_segment(std::string_view text, size_t front,
                                          TokenBuffer& tokens) {
  if (parts_.normalizer != nullptr && !parts_.normalizer->keeps(text)) {
    normalized_.assign(text);
    MEG_RETURN_IF_ERROR(parts_.normalizer->apply(normalized_, front));
    text = padded(normalized_);
  }
  const size_t step = parts_.skips_steps ? parts_.pre_tokenizer.steps.size() : 0;
  return cut(parts_.in_normalized, text, tokens,
             [&](std::string_view part) { return split(part, step, text.data() + front, tokens); });
}

Status HuggingFaceEncoder::split(std::string_view text, size_t step, const char* front_end,
                                 TokenBuffer& tokens) {
  if (step == parts_.pre_tokenizer.steps.size()) {
    return parts_.pre_tokenizer.metaspace ? encode_metaspaced(text, text.data() < front_end, tokens)
                                          : encode_spaced(text, tokens);
  }
  return split_text(parts_.pre_tokenizer.steps[step], text, [&](std::string_view part) {
    return split(part, step + 1, front_end, tokens);
  });
}

Status HuggingFaceEncoder::encode_spaced(std::string_view text, TokenBuffer& tokens) {
  if (parts_.pre_tokenizer.add_prefix_space && text[0] != ' ') {
    spaced_.assign(1, ' ').append(text);
    text = padded(spaced_);
  }
  return words_->encode(text, tokens);
}

Status HuggingFaceEncoder::encode_metaspaced(std::string_view text, bool is_first,
                                             TokenBuffer& tokens) {
  const Metaspace& metaspace = *parts_.pre_tokenizer.metaspace;
  spaced_.clear();
  append_replacing_byte(text, ' ', metaspace.replacement, spaced_);
  const bool prepends = metaspace.prepend == Metaspace::Prepend::kAlways ||
                        (metaspace.prepend == Metaspace::Prepend::kFirst && is_first);
  if (prepends && !spaced_.starts_with(metaspace.replacement)) {
    spaced_.insert(0, metaspace.replacement);
  }
  return split_spaced(padded(spaced_), 0, tokens);
}

Status HuggingFaceEncoder::split_spaced(std::string_view text, size_t step, TokenBuffer& tokens) {
  const std::vector<SplitStep>& steps = parts_.pre_tokenizer.spaced_steps;
  if (step == steps.size()) return words_->encode(text, tokens);
  return split_text(steps[step], text,
                    [&](std::string_view part) { return split_spaced(part, step + 1, tokens); });
}

}  // namespace meg::tokenizer
