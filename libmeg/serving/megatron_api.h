#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/condition_variable.h"
#include "libmeg/base/result.h"
#include "libmeg/serving/generation_queue.h"
#include "libmeg/serving/text_request.h"
#include "libmeg/tokenizer/interface/tokenizer.h"

namespace meg::serving {

/// The answer to a client, and its log entry.
struct ApiAnswer {
  int status = 200;  ///< HTTP status; kClientGone if the client has disconnected.
  std::string body;  ///< JSON.
  int64_t prompts = 0;
  int64_t prompt_tokens = 0;
  int64_t new_tokens = 0;
  std::string first_prompt;  ///< Empty with no_log.
};

/// nginx's number for a client that hung up before its answer.
inline constexpr int kClientGone = 499;

/// Megatron's `PUT /api`: converts a request body to a job of the queue, and the job's result to an
/// answer in Megatron's form. answer() may be called from any thread.
class MegatronApi {
 public:
  /// tokenizer and queue must outlive it. timeout: how long a request may wait and run. seed: of
  /// the generator that provides seeds for requests without random_seed.
  MegatronApi(const tokenizer::Tokenizer& tokenizer, GenerationQueue& queue, RequestRules rules,
              std::chrono::milliseconds timeout, uint64_t seed);
  ~MegatronApi();

  /// Returns once the answer is ready. client: the request's socket; the job is cancelled if the
  /// client closes it.
  ApiAnswer answer(std::string_view body, int client);

 private:
  class BorrowedEncoder;

  Status answer_or_fail(std::string_view body, int client, ApiAnswer* answer);
  Result<GenerationJob> make_job(const TextRequest& request);
  BeamSearchOptions beam_options(const BeamRequest& request) const;
  Result<std::vector<int32_t>> tokenize(const std::string& prompt, bool add_BOS);
  uint64_t new_seed();

  const tokenizer::Tokenizer& tokenizer_;
  GenerationQueue& queue_;
  const RequestRules rules_;
  const std::chrono::milliseconds timeout_;

  std::mutex mutex_;
  std::deque<std::unique_ptr<tokenizer::TokenEncoder>> idle_encoders_;
  std::condition_variable encoder_idle_;
  std::mt19937_64 seeds_;
};

}  // namespace meg::serving
