#include "libmeg/serving/megatron_api.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

#include "libmeg/base/thread_pool.h"
#include "libmeg/serving/internal/text_answer.h"
#include "libmeg/tokenizer/interface/encode_text.h"

namespace meg::serving {
namespace {

/// Each keeps some 10 MB of caches; a request holds one for less than a millisecond.
constexpr int kMaxEncoders = 4;

using Clock = std::chrono::steady_clock;

enum class Waited { kReady, kTimeout, kGone };

/// Waits until the ticket is ready, the deadline has come or the client has closed its connection.
Waited wait(const GenerationTicket& ticket, int client, Clock::time_point deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return Waited::kTimeout;
    // POLLRDHUP alone: bytes of a further request are no reason to look, a client that ends its
    // side is. The wait is cut so that it fits an int; the deadline decides.
    pollfd waits[] = {{ticket.ready_fd(), POLLIN, 0}, {client, POLLRDHUP, 0}};
    const int ready = ::poll(waits, 2, static_cast<int>(std::min<int64_t>(left, 1'000'000)));
    if (ready < 0 && errno != EINTR) return Waited::kGone;
    if (ready <= 0) continue;
    if (waits[0].revents != 0) return Waited::kReady;
    return Waited::kGone;
  }
}

/// What HTTP calls an error of the queue, the engine or the request.
int http_status(StatusCode code) {
  switch (code) {
    case StatusCode::kInvalidArgument:
    case StatusCode::kOutOfRange:
    case StatusCode::kUnsupported:
      return 400;
    case StatusCode::kResourceExhausted:
    // 503, not 500: the same request may succeed later.
    case StatusCode::kCancelled:
      return 503;
    default:
      return 500;
  }
}

/// The seed of text number `text` of a request: answers to equal prompts of one request differ.
uint64_t text_seed(uint64_t seed, size_t text) { return seed + text; }

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

/// An encoder for one thread, given back afterwards.
class MegatronApi::BorrowedEncoder {
 public:
  explicit BorrowedEncoder(MegatronApi& api) : api_(api) {
    std::unique_lock lock(api_.mutex_);
    api_.encoder_idle_.wait(lock, [&] { return !api_.idle_encoders_.empty(); });
    // The one that has rested longest, so that each one's caches fill early rather than some day.
    encoder_ = std::move(api_.idle_encoders_.front());
    api_.idle_encoders_.pop_front();
  }

  BorrowedEncoder(const BorrowedEncoder&) = delete;
  BorrowedEncoder& operator=(const BorrowedEncoder&) = delete;

  ~BorrowedEncoder() {
    {
      const std::lock_guard lock(api_.mutex_);
      api_.idle_encoders_.push_back(std::move(encoder_));
    }
    api_.encoder_idle_.notify_one();
  }

  tokenizer::TokenEncoder& operator*() { return *encoder_; }

 private:
  MegatronApi& api_;
  std::unique_ptr<tokenizer::TokenEncoder> encoder_;
};

MegatronApi::MegatronApi(const tokenizer::Tokenizer& tokenizer, GenerationQueue& queue,
                         RequestRules rules, std::chrono::milliseconds timeout, uint64_t seed)
    : tokenizer_(tokenizer),
      queue_(queue),
      rules_(std::move(rules)),
      timeout_(timeout),
      seeds_(seed) {
  const int encoders = std::min(available_processors(), kMaxEncoders);
  for (int i = 0; i < encoders; ++i) {
    idle_encoders_.push_back(tokenizer_.new_encoder(DType::kInt32));
  }
}

MegatronApi::~MegatronApi() = default;

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
  const Clock::time_point deadline = Clock::now() + timeout_;
  MEG_ASSIGN_OR_RETURN(const TextRequest request, read_text_request(call.body, rules_));
  call.log.prompts = std::ssize(request.prompts);
  if (!request.no_log) call.log.first_prompt = request.prompts[0];
  MEG_ASSIGN_OR_RETURN(GenerationJob job, make_job(request));
  for (const GenerationRequest& text : job) call.log.prompt_tokens += std::ssize(text.prompt);
  MEG_ASSIGN_OR_RETURN(const auto ticket, queue_.submit(std::move(job)));
  const Waited waited = wait(*ticket, call.client, deadline);
  // Nobody will read it: the engine's room goes to others at its next step.
  if (waited != Waited::kReady) ticket->cancel();
  if (waited == Waited::kGone) {
    return message_error(kClientGone, "the connection was closed before the answer");
  }
  if (waited == Waited::kTimeout) {
    return make_error(StatusCode::kCancelled, "the request took longer than {:.3g} s",
                      std::chrono::duration<double>(timeout_).count());
  }
  MEG_ASSIGN_OR_RETURN(const GenerationOutcome outcome, ticket->take());
  count_tokens(outcome, &call.log);
  Result<std::string> made = request.beam ? beam_answer(tokenizer_, outcome.front().beams)
                                          : text_answer(tokenizer_, outcome, request.logprobs);
  // Not the client's fault, whatever the tokenizer calls it.
  if (!made.has_value()) return Status(StatusCode::kInternal, made.error().message());
  return HttpResponse{.body = *std::move(made)};
}

Result<GenerationJob> MegatronApi::make_job(const TextRequest& request) {
  GenerationJob job;
  const uint64_t seed = request.random_seed.has_value() ? *request.random_seed : new_seed();
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
  options.stop_token = request.stop_token.value_or(tokenizer_.eod().value_or(-1));
  options.length_penalty = request.length_penalty;
  return options;
}

Result<std::vector<int32_t>> MegatronApi::tokenize(const std::string& prompt, bool add_BOS) {
  std::vector<int32_t> ids;
  if (add_BOS) {
    const std::optional<int32_t> eod = tokenizer_.eod();
    if (!eod.has_value()) {
      return make_error(StatusCode::kInvalidArgument,
                        "add_BOS: the tokenizer has no end-of-document token to begin with");
    }
    ids.push_back(*eod);
  }
  MEG_ASSIGN_OR_RETURN(const std::vector<int32_t> text,
                       tokenizer::encode_text(*BorrowedEncoder(*this), prompt));
  ids.insert(ids.end(), text.begin(), text.end());
  return ids;
}

uint64_t MegatronApi::new_seed() {
  const std::lock_guard lock(mutex_);
  return seeds_();
}

}  // namespace meg::serving
