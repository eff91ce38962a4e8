#include "libmeg/serving/openai/internal/openai_answer.h"

#include <fmt/format.h>

#include <utility>

#include "libmeg/serving/openai/openai_api.h"

namespace meg::serving {

Status OpenAiAnswer::add_choice(const std::vector<int32_t>& prompt) {
  is_sent_.push_back(false);
  return choices_.emplace_back(jobs_.tokenizer(), form_).begin(prompt);
}

Status OpenAiAnswer::submit(GenerationJob job, bool streams, std::string client) {
  MEG_ASSIGN_OR_RETURN(ticket_, jobs_.queue().submit(std::move(job), streams, std::move(client)));
  return {};
}

Result<bool> OpenAiAnswer::wait() {
  while (!is_done_) {
    MEG_ASSIGN_OR_RETURN(const bool is_ready, jobs_.wait(*ticket_, client_, deadline_));
    if (!is_ready) return false;
    MEG_RETURN_IF_ERROR(advance());
    for (const OpenAiChoice& choice : choices_) {
      if (choice.tokens() > 0) return true;
    }
  }
  return true;
}

Result<bool> OpenAiAnswer::finish() {
  while (!is_done_) {
    MEG_ASSIGN_OR_RETURN(const bool is_ready, jobs_.wait(*ticket_, client_, deadline_));
    if (!is_ready) return false;
    MEG_RETURN_IF_ERROR(advance());
  }
  return true;
}

/// Takes what has come.
Status OpenAiAnswer::advance() {
  // In this order: all progress is there once the outcome is.
  const bool has_outcome = ticket_->has_outcome();
  std::vector<TextProgress> progress = ticket_->take_progress();
  for (size_t i = 0; i < progress.size(); ++i) {
    const bool was_stopped = choices_[i].is_stopped();
    MEG_RETURN_IF_ERROR(choices_[i].add(std::move(progress[i])));
    if (choices_[i].is_stopped() && !was_stopped) ticket_->end_text(i);
  }
  if (!has_outcome) return {};
  is_done_ = true;
  MEG_ASSIGN_OR_RETURN(GenerationOutcome outcome, ticket_->take());
  if (!progress.empty()) return {};
  for (size_t i = 0; i < outcome.size(); ++i) {
    MEG_RETURN_IF_ERROR(choices_[i].add(std::move(outcome[i])));
  }
  return {};
}

std::string OpenAiAnswer::whole() {
  std::string choices;
  for (size_t i = 0; i < choices_.size(); ++i) {
    const OpenAiChoice::Piece piece = choices_[i].take();
    const std::string text = json_string(piece.text);
    choices += fmt::format(
        R"({}{{"index":{},{},"logprobs":{},"finish_reason":{}}})", i == 0 ? "" : ",", i,
        form_.is_chat
            ? fmt::format(R"("message":{{"role":"assistant","content":{},"refusal":null}})", text)
            : fmt::format(R"("text":{})", text),
        piece.logprobs, choices_[i].finish_reason());
  }
  return fmt::format(R"({},"choices":[{}],"usage":{}}})"
                     "\n",
                     begin_of_object(form_.is_chat ? "chat.completion" : "text_completion"),
                     choices, usage());
}

void OpenAiAnswer::stream(HttpBodyWriter& writer, RequestLog* log) {
  Status failure;
  bool is_open = true;
  log->first_token_seconds = since_arrival_.seconds();
  if (form_.is_chat) {
    for (size_t i = 0; i < choices_.size() && is_open; ++i) {
      is_open = writer.write(event(fmt::format(
          R"({{"index":{},"delta":{{"role":"assistant","content":""}},"logprobs":null,"finish_reason":null}})",
          i)));
    }
  }
  while (is_open && failure.ok()) {
    is_open = send_new(writer);
    if (is_done_ || !is_open) break;
    const Result<bool> is_ready = jobs_.wait(*ticket_, client_, deadline_);
    failure = is_ready.has_value() ? advance() : is_ready.error();
    if (is_ready.has_value() && !*is_ready) is_open = false;
  }
  log->new_tokens = completion_tokens();
  if (!is_open) {
    ticket_->cancel();
    log->status = kClientGone;
  } else if (!failure.ok()) {
    ticket_->cancel();
    const HttpResponse error = openai_error_of(failure);
    log->status = error.status;
    writer.write("data: " + error.body + "\n\n");
  } else {
    writer.write((head_.include_usage ? event("") : "") + "data: [DONE]\n\n");
  }
}

/// False if the client has gone.
bool OpenAiAnswer::send_new(HttpBodyWriter& writer) {
  std::string events;
  for (size_t i = 0; i < choices_.size(); ++i) {
    if (is_sent_[i]) continue;
    const OpenAiChoice::Piece piece = choices_[i].take();
    if (piece.empty()) continue;
    is_sent_[i] = piece.is_last;
    events += event(chunk(i, piece));
  }
  return events.empty() || writer.write(events);
}

std::string OpenAiAnswer::chunk(size_t index, const OpenAiChoice::Piece& piece) const {
  const std::string text = json_string(piece.text);
  return fmt::format(R"({{"index":{},{},"logprobs":{},"finish_reason":{}}})", index,
                     form_.is_chat ? fmt::format(R"("delta":{{"content":{}}})", text)
                                   : fmt::format(R"("text":{})", text),
                     piece.logprobs, piece.is_last ? choices_[index].finish_reason() : "null");
}

/// With an empty list of choices: the one that tells the usage.
std::string OpenAiAnswer::event(const std::string& choices) const {
  std::string usage_part;
  if (head_.include_usage) {
    usage_part = fmt::format(R"(,"usage":{})", choices.empty() ? usage() : "null");
  }
  return fmt::format("data: {},\"choices\":[{}]{}}}\n\n",
                     begin_of_object(form_.is_chat ? "chat.completion.chunk" : "text_completion"),
                     choices, usage_part);
}

std::string OpenAiAnswer::begin_of_object(std::string_view object) const {
  return fmt::format(R"({{"id":{},"object":"{}","created":{},"model":{})", json_string(head_.id),
                     object, head_.created, json_string(head_.model));
}

std::string OpenAiAnswer::usage() const {
  const int64_t made = completion_tokens();
  return fmt::format(R"({{"prompt_tokens":{},"completion_tokens":{},"total_tokens":{}}})",
                     head_.prompt_tokens, made, head_.prompt_tokens + made);
}

int64_t OpenAiAnswer::completion_tokens() const {
  int64_t tokens = 0;
  for (const OpenAiChoice& choice : choices_) tokens += choice.tokens();
  return tokens;
}

}  // namespace meg::serving
