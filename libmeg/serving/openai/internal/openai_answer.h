#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>

#include "libmeg/base/result.h"
#include "libmeg/base/stopwatch.h"
#include "libmeg/serving/http/http_message.h"
#include "libmeg/serving/internal/text_jobs.h"
#include "libmeg/serving/openai/internal/openai_choice.h"

namespace meg::serving {

/// The error of a job or request, as OpenAI has it.
HttpResponse openai_error_of(const Status& status);

/// The answer to one request while its job runs: whole, or as a stream of server-sent events.
class OpenAiAnswer {
 public:
  /// What the answer says of itself.
  struct Head {
    std::string id, model;
    int64_t created = 0;
    int64_t prompt_tokens = 0;
    bool include_usage = false;
  };

  /// jobs must outlive it. client: the request's socket.
  OpenAiAnswer(TextJobs& jobs, OpenAiChoice::Form form, Head head,
               TextJobs::Clock::time_point deadline, int client)
      : jobs_(jobs),
        form_(std::move(form)),
        head_(std::move(head)),
        deadline_(deadline),
        client_(client) {}

  OpenAiAnswer(const OpenAiAnswer&) = delete;
  OpenAiAnswer& operator=(const OpenAiAnswer&) = delete;

  /// One for each text of the job, in its order.
  Status add_choice(const std::vector<int32_t>& prompt);

  /// Called once, before the functions below. client: as GenerationQueue::submit() has it.
  Status submit(GenerationJob job, bool streams, std::string client);

  /// Waits for the whole answer. False if the client has gone.
  Result<bool> finish();

  /// Waits for the first tokens of a job that streams. False if the client has gone.
  Result<bool> wait();

  /// JSON; after finish().
  std::string whole();

  /// Called after wait(): sends the tokens as they come. An error in the middle is an event, too;
  /// *log gets its status.
  void stream(HttpBodyWriter& writer, RequestLog* log);

  int64_t completion_tokens() const;

 private:
  Status advance();
  bool send_new(HttpBodyWriter& writer);
  std::string event(const std::string& choices) const;
  std::string begin_of_object(std::string_view object) const;
  std::string chunk(size_t index, const OpenAiChoice::Piece& piece) const;
  std::string usage() const;

  TextJobs& jobs_;
  const OpenAiChoice::Form form_;
  const Head head_;
  const TextJobs::Clock::time_point deadline_;
  const int client_;
  const Stopwatch since_arrival_;
  std::shared_ptr<GenerationTicket> ticket_;
  bool is_done_ = false;  ///< The job has its outcome, which advance() has taken.
  std::deque<OpenAiChoice> choices_;
  std::vector<bool> is_sent_;  ///< Of the choices: the last piece too.
};

}  // namespace meg::serving
