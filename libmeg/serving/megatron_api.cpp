#include "libmeg/serving/megatron_api.h"

#include <fmt/format.h>

#include <new>
#include <utility>

#include "libmeg/serving/internal/text_answer.h"
#include "libmeg/serving/internal/text_jobs.h"

namespace meg::serving {
namespace {

template <class Text>
int64_t new_tokens(const Text& text) {
  return static_cast<int64_t>(text.tokens.size() - text.prompt_size);
}

void count_tokens(const GenerationOutcome& outcome, RequestLog* log) {
  for (const GeneratedText& text : outcome) {
    if (text.beams.empty()) log->new_tokens += new_tokens(text);
    for (const Beam& beam : text.beams) log->new_tokens += new_tokens(beam);
  }
}

}  // namespace

HttpResponse MegatronApi::answer(const HttpCall& call) {
  Result<HttpResponse> answer =
      make_error(StatusCode::kResourceExhausted, "no memory is left for this request");
  try {
    answer = answer_or_fail(call);
  } catch (const std::bad_alloc&) {
  }
  if (answer.has_value()) return *std::move(answer);
  return message_error(http_status(answer.error().code()), answer.error().message());
}

Result<HttpResponse> MegatronApi::answer_or_fail(const HttpCall& call) {
  // Count from the request's arrival: waiting in the queue counts.
  const TextJobs::Clock::time_point deadline = jobs_.deadline();
  MEG_ASSIGN_OR_RETURN(const TextRequest request, read_text_request(call.body, rules_));
  call.log.prompts = std::ssize(request.prompts);
  if (!request.no_log) call.log.first_prompt = request.prompts[0];
  MEG_ASSIGN_OR_RETURN(GenerationJob job, make_job(request));
  std::string prompt_tokens;
  for (const GenerationRequest& text : job) {
    call.log.prompt_tokens += std::ssize(text.prompt);
    prompt_tokens += fmt::format("{}{}", prompt_tokens.empty() ? "" : ", ", text.prompt.size());
  }
  MEG_ASSIGN_OR_RETURN(const auto ticket, jobs_.queue().submit(std::move(job), /*streams=*/false,
                                                               call.client_address()));
  MEG_ASSIGN_OR_RETURN(const bool is_ready, jobs_.wait(*ticket, call.client, deadline));
  if (!is_ready) return client_gone();
  MEG_ASSIGN_OR_RETURN(const GenerationOutcome outcome, ticket->take());
  count_tokens(outcome, &call.log);
  Result<std::string> made = request.beam
                                 ? beam_answer(jobs_.tokenizer(), outcome.front().beams)
                                 : text_answer(jobs_.tokenizer(), outcome, request.logprobs);
  // Not the client's fault, whatever the tokenizer calls it.
  if (!made.has_value()) return Status(StatusCode::kInternal, made.error().message());
  return HttpResponse{.body = *std::move(made),
                      .headers = {{"Prompt-Tokens", std::move(prompt_tokens)}}};
}

Result<GenerationJob> MegatronApi::make_job(const TextRequest& request) {
  GenerationJob job;
  const uint64_t seed = request.random_seed.has_value() ? *request.random_seed : jobs_.new_seed();
  for (const std::string& prompt : request.prompts) {
    GenerationRequest text;
    MEG_ASSIGN_OR_RETURN(text.prompt, tokenize(prompt, request.add_BOS));
    text.tokens_to_generate = request.tokens_to_generate;
    text.sampling = request.sampling;
    text.sampling.seed = text_seed(seed, job.size());
    text.stop = request.stop;
    text.prevent_newline_after_colon = request.prevent_newline_after_colon;
    text.logprobs = request.logprobs && !request.beam;
    if (request.beam) text.beam = beam_options(*request.beam);
    job.push_back(std::move(text));
  }
  return job;
}

BeamSearchOptions MegatronApi::beam_options(const BeamRequest& request) const {
  BeamSearchOptions options;
  options.beam_width = options.num_return_gen = request.beam_width;
  // An id that no token has stops nothing.
  options.stop_token = request.stop_token.value_or(jobs_.tokenizer().eod().value_or(-1));
  options.length_penalty = request.length_penalty;
  return options;
}

Result<std::vector<int32_t>> MegatronApi::tokenize(const std::string& prompt, bool add_BOS) {
  std::vector<int32_t> ids;
  if (add_BOS) {
    const std::optional<int32_t> eod = jobs_.tokenizer().eod();
    if (!eod.has_value()) {
      return make_error(StatusCode::kInvalidArgument,
                        "add_BOS: the tokenizer has no end-of-document token to begin with");
    }
    ids.push_back(*eod);
  }
  MEG_ASSIGN_OR_RETURN(const std::vector<int32_t> text, jobs_.encode(prompt));
  ids.insert(ids.end(), text.begin(), text.end());
  return ids;
}

}  // namespace meg::serving
