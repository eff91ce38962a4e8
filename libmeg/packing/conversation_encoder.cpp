#include "libmeg/packing/conversation_encoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>

#include "libmeg/text/text_padding.h"

namespace meg::packing {
namespace {

Status bad(std::string_view why) { return make_error(StatusCode::kCorruption, "byte 1: {}", why); }

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

/// The token that has byte `at`; the number of tokens where none has. begins: sorted.
size_t token_at(const std::vector<size_t>& begins, size_t at, size_t text_size) {
  if (at >= text_size) return begins.size();
  // Of tokens without bytes, which begin alike, the last one has it.
  const auto after = std::upper_bound(begins.begin(), begins.end(), at);
  return after == begins.begin() ? 0 : static_cast<size_t>(after - begins.begin()) - 1;
}

/// The first message whose parts the text has as Python prints a list: the template takes contents
/// for texts.
std::optional<size_t> message_printed_as_list(const Conversation& conversation,
                                              std::string_view text) {
  for (size_t i = 0; i < conversation.messages().size(); ++i) {
    const auto& message = conversation.messages()[i];
    const auto content = message.find("content");
    const bool is_list = content != message.end() && content->is_array();
    if (is_list && (content->empty() || text.find("[{'") != text.npos)) return i;
  }
  return std::nullopt;
}

}  // namespace

ConversationEncoder::ConversationEncoder(const chat::ChatTemplate& chat_template,
                                         const tokenizer::Tokenizer& tokenizer, DType dtype,
                                         LossOn loss_on)
    : template_(chat_template),
      tokenizer_(tokenizer),
      loss_on_(loss_on),
      encoder_(tokenizer.new_encoder(dtype)),
      prefix_(dtype) {
  for (const tokenizer::SpecialToken& token : tokenizer.special_tokens()) {
    special_ids_.push_back(token.id);
  }
}

Result<chat::RenderedChat> ConversationEncoder::render(const Conversation& conversation,
                                                       size_t messages,
                                                       bool add_generation_prompt) const {
  const bool is_whole = messages == conversation.messages().size() && !add_generation_prompt;
  nlohmann::ordered_json beginning;
  if (!is_whole) {
    beginning = conversation.variables;
    nlohmann::ordered_json& list = beginning["messages"];
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(messages), list.end());
    beginning["add_generation_prompt"] = add_generation_prompt;
  }
  Result<chat::RenderedChat> text = template_.render(is_whole ? conversation.variables : beginning);
  if (text.has_value()) return text;
  return bad(fmt::format("chat template: {}", text.error().message()));
}

Result<ConversationEncoder::Spans> ConversationEncoder::marked_answer(
    const Conversation& conversation, size_t answer, const chat::RenderedChat& whole) const {
  // Which blocks are this answer's is seen in the texts that end before it and after it.
  MEG_ASSIGN_OR_RETURN(const chat::RenderedChat before, render(conversation, answer, false));
  MEG_ASSIGN_OR_RETURN(const chat::RenderedChat after, render(conversation, answer + 1, false));
  const auto begins = [](const Spans& all, const Spans& beginning) {
    return beginning.size() <= all.size() &&
           std::equal(beginning.begin(), beginning.end(), all.begin());
  };
  if (!begins(after.generated, before.generated) || !begins(whole.generated, after.generated)) {
    return bad(
        "the chat template marks an answer in one way while it is the last message, and in "
        "another in the whole conversation: which blocks are its own is not known");
  }
  return Spans(after.generated.begin() + std::ssize(before.generated), after.generated.end());
}

Result<ConversationEncoder::Spans> ConversationEncoder::unmarked_answer(
    const Conversation& conversation, size_t answer, const chat::RenderedChat& whole) const {
  MEG_ASSIGN_OR_RETURN(const chat::RenderedChat before, render(conversation, answer, true));
  chat::RenderedChat until;
  const bool is_last = answer + 1 == conversation.messages().size();
  if (!is_last) {
    MEG_ASSIGN_OR_RETURN(until, render(conversation, answer + 1, false));
  }
  const std::string& after = is_last ? whole.text : until.text;
  if (!after.starts_with(before.text) || !whole.text.starts_with(after)) {
    return make_error(
        StatusCode::kCorruption,
        "byte 1: message {}: the chat template's text of the messages {} it is no beginning of its "
        "text of the whole conversation: only a template with generation blocks can say what the "
        "assistant's answers are",
        answer, after.starts_with(before.text) ? "up to" : "before");
  }
  return Spans{{before.text.size(), after.size()}};
}

Result<ConversationEncoder::Spans> ConversationEncoder::answers_of(
    const Conversation& conversation, const chat::RenderedChat& whole) const {
  if (loss_on_ == LossOn::kAll) return Spans{{0, whole.text.size()}};
  std::span<const size_t> answers = conversation.answers;
  if (loss_on_ == LossOn::kLastTurn && !answers.empty()) answers = answers.last(1);
  const bool are_all = answers.size() == conversation.assistant_messages;
  if (template_.marks_generation() && are_all) return whole.generated;
  Spans spans;
  for (const size_t answer : answers) {
    MEG_ASSIGN_OR_RETURN(const Spans found, template_.marks_generation()
                                                ? marked_answer(conversation, answer, whole)
                                                : unmarked_answer(conversation, answer, whole));
    spans.insert(spans.end(), found.begin(), found.end());
  }
  return spans;
}

Status ConversationEncoder::encode_text(std::string text, tokenizer::TokenBuffer& tokens) {
  const size_t size = text.size();
  text.append(text::kTextPadding, '\0');
  const Status status = encoder_->encode(std::string_view(text).substr(0, size), tokens);
  return status.ok() ? status : status.with_prefix("byte 1");
}

bool ConversationEncoder::is_special(int32_t id) const {
  return std::binary_search(special_ids_.begin(), special_ids_.end(), id);
}

/// Sets begins_ where the tokens' bytes are those of the text, apart from the space that some
/// tokenizers put in front of a text and from white space that special tokens swallow; else false.
bool ConversationEncoder::find_token_begins(const std::string& text,
                                            const tokenizer::TokenBuffer& tokens, int64_t first) {
  begins_.clear();
  const std::string_view whole = text;
  size_t at = 0;
  bool after_special = false;
  for (int64_t i = first; i < tokens.size(); ++i) {
    const int32_t id = tokens.at(i);
    const std::optional<std::string_view> bytes = tokenizer_.token_bytes(id);
    if (!bytes.has_value()) return false;
    size_t begin = at;
    std::string_view token = *bytes;
    if (!whole.substr(at).starts_with(token)) {
      if (token.starts_with(' ') && whole.substr(at).starts_with(token.substr(1))) {
        token.remove_prefix(1);
      } else {
        if (!after_special && !is_special(id)) return false;
        while (at < whole.size() && is_space(whole[at])) ++at;
        if (!whole.substr(at).starts_with(token)) return false;
        if (after_special) begin = at;
      }
    }
    begins_.push_back(begin);
    at += token.size();
    after_special = is_special(id);
  }
  while (after_special && at < whole.size() && is_space(whole[at])) ++at;
  return at == whole.size();
}

/// The number of tokens before a border, for a tokenizer whose tokens do not spell the text: those
/// of the text before it, which must be the first ones of the whole text.
Result<size_t> ConversationEncoder::token_of_border(const std::string& text, size_t border,
                                                    const tokenizer::TokenBuffer& tokens,
                                                    int64_t first) {
  if (border == text.size()) return static_cast<size_t>(tokens.size() - first);
  prefix_.clear();
  MEG_RETURN_IF_ERROR(encode_text(text.substr(0, border), prefix_));
  bool is_beginning = prefix_.size() <= tokens.size() - first;
  for (int64_t i = 0; is_beginning && i < prefix_.size(); ++i) {
    is_beginning = prefix_.at(i) == tokens.at(first + i);
  }
  if (is_beginning) return static_cast<size_t>(prefix_.size());
  return bad(
      "the tokenizer changes the text, and joins what lies around the border of an answer: "
      "which tokens are the answer's is not known");
}

Status ConversationEncoder::encode(const Conversation& conversation, tokenizer::TokenBuffer& tokens,
                                   std::vector<uint8_t>& mask) {
  MEG_ASSIGN_OR_RETURN(chat::RenderedChat whole,
                       render(conversation, conversation.messages().size(), false));
  if (const auto message = message_printed_as_list(conversation, whole.text)) {
    return bad(fmt::format("message {}: the chat template does not read a list of parts as content",
                           *message));
  }
  MEG_ASSIGN_OR_RETURN(const Spans spans, answers_of(conversation, whole));
  const int64_t first = tokens.size();
  const size_t first_of_mask = mask.size();
  MEG_RETURN_IF_ERROR(encode_text(whole.text, tokens));
  mask.resize(first_of_mask + static_cast<size_t>(tokens.size() - first));
  const auto own = std::span(mask).subspan(first_of_mask);
  if (loss_on_ == LossOn::kAll) {
    std::fill(own.begin(), own.end(), uint8_t{1});
    return Status();
  }
  const bool spells = find_token_begins(whole.text, tokens, first);
  for (const auto& [begin, end] : spans) {
    if (begin == end) continue;
    size_t from = 0;
    size_t to = 0;
    if (spells) {
      from = token_at(begins_, begin, whole.text.size());
      to = std::min(token_at(begins_, end - 1, whole.text.size()) + 1, own.size());
    } else {
      MEG_ASSIGN_OR_RETURN(from, token_of_border(whole.text, begin, tokens, first));
      MEG_ASSIGN_OR_RETURN(to, token_of_border(whole.text, end, tokens, first));
    }
    for (size_t i = from; i < to; ++i) own[i] = 1;
  }
  return Status();
}

}  // namespace meg::packing
