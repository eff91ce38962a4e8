#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string_view>
#include <vector>

#include "libmeg/base/condition_variable.h"
#include "libmeg/base/result.h"
#include "libmeg/serving/generation_queue.h"
#include "libmeg/serving/http/http_message.h"
#include "libmeg/tokenizer/interface/tokenizer.h"

namespace meg::serving {

/// HTTP's status for an error of the queue, the engine or the request.
int http_status(StatusCode code);

/// What the routes of all forms share: the ids of texts, seeds, and jobs that end with their
/// client. Each function may be called from any thread.
class TextJobs {
 public:
  using Clock = std::chrono::steady_clock;

  /// tokenizer and queue must outlive it. timeout: how long a request may wait and run. seed: of
  /// the generator that provides seeds for requests without one.
  TextJobs(const tokenizer::Tokenizer& tokenizer, GenerationQueue& queue,
           std::chrono::milliseconds timeout, uint64_t seed);
  ~TextJobs();

  const tokenizer::Tokenizer& tokenizer() const { return tokenizer_; }

  GenerationQueue& queue() { return queue_; }

  /// When a request that arrives now must have its answer.
  Clock::time_point deadline() const { return Clock::now() + timeout_; }

  Result<std::vector<int32_t>> encode(std::string_view text);

  uint64_t new_seed();

  /// One that no other answer of this server has.
  uint64_t new_number() { return next_number_++; }

  /// Waits until the ticket has an outcome or progress. Otherwise the job is cancelled: false if
  /// the client has closed its connection, an error after the deadline.
  Result<bool> wait(GenerationTicket& ticket, int client, Clock::time_point deadline) const;

 private:
  class BorrowedEncoder;

  const tokenizer::Tokenizer& tokenizer_;
  GenerationQueue& queue_;
  const std::chrono::milliseconds timeout_;

  std::mutex mutex_;
  std::deque<std::unique_ptr<tokenizer::TokenEncoder>> idle_encoders_;
  std::condition_variable encoder_idle_;
  std::mt19937_64 seeds_;
  /// Not from 0, so that answers of two runs have different numbers.
  std::atomic<uint64_t> next_number_ =
      static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
};

/// The seed of text number `text` of a request: answers to equal prompts of one request differ.
inline uint64_t text_seed(uint64_t seed, size_t text) { return seed + text; }

/// What is answered if the client has gone, for the log.
HttpResponse client_gone();

}  // namespace meg::serving
