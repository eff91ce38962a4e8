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
#include "libmeg/serving/http/http_message.h"
#include "libmeg/serving/text_request.h"
#include "libmeg/tokenizer/interface/tokenizer.h"

namespace meg::serving {

/// Megatron's `PUT /api`: converts a request body to a job of the queue, and the job's result to an
/// answer in Megatron's form. answer() may be called from any thread.
class MegatronApi {
 public:
  /// tokenizer and queue must outlive it. timeout: how long a request may wait and run. seed: of
  /// the generator that provides seeds for requests without random_seed.
  MegatronApi(const tokenizer::Tokenizer& tokenizer, GenerationQueue& queue, RequestRules rules,
              std::chrono::milliseconds timeout, uint64_t seed);
  ~MegatronApi();

  /// Returns once the answer is ready; its status is kClientGone if the client has closed the
  /// connection, which cancels the job.
  HttpResponse answer(const HttpCall& call);

 private:
  class BorrowedEncoder;

  Result<HttpResponse> answer_or_fail(const HttpCall& call);
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
