#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/serving/generation_queue.h"
#include "libmeg/serving/http/http_message.h"
#include "libmeg/serving/text_request.h"

namespace meg::serving {

class TextJobs;

/// Megatron's `PUT /api`: converts a request body to a job of the queue, and the job's result to an
/// answer in Megatron's form. answer() may be called from any thread.
class MegatronApi {
 public:
  /// jobs must outlive it.
  MegatronApi(TextJobs& jobs, RequestRules rules) : jobs_(jobs), rules_(rules) {}

  /// Returns once the answer is ready; its status is kClientGone if the client has closed the
  /// connection, which cancels the job. The header Prompt-Tokens says how many tokens each text
  /// begins with that are its prompt's.
  HttpResponse answer(const HttpCall& call);

 private:
  Result<HttpResponse> answer_or_fail(const HttpCall& call);
  Result<GenerationJob> make_job(const TextRequest& request);
  BeamSearchOptions beam_options(const BeamRequest& request) const;
  Result<std::vector<int32_t>> tokenize(const std::string& prompt, bool add_BOS);

  TextJobs& jobs_;
  const RequestRules rules_;
};

}  // namespace meg::serving
