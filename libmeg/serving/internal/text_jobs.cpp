#include "libmeg/serving/internal/text_jobs.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "libmeg/base/thread_pool.h"
#include "libmeg/tokenizer/interface/encode_text.h"

namespace meg::serving {
namespace {

/// Each keeps some 10 MB of caches; a request holds one for less than a millisecond.
constexpr int kMaxEncoders = 4;

enum class Waited { kReady, kTimeout, kGone };

/// Waits until the ticket is ready, the deadline has come or the client has closed its connection.
Waited wait_for(const GenerationTicket& ticket, int client, TextJobs::Clock::time_point deadline) {
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - TextJobs::Clock::now()).count();
    if (left <= 0) return Waited::kTimeout;
    // POLLRDHUP alone: bytes of a further request are no reason to look, a client that ends its
    // side is. The wait is cut so that it fits an int; the deadline decides.
    pollfd waits[] = {{ticket.ready_fd(), POLLIN, 0}, {client, POLLRDHUP, 0}};
    const int ready = ::poll(waits, 2, static_cast<int>(std::min<int64_t>(left, 1'000'000)));
    if (ready < 0 && errno != EINTR) return Waited::kGone;
    if (ready <= 0) continue;
    // A stream is always ready on a fast model: its client is looked at first.
    if (waits[1].revents != 0) return Waited::kGone;
    return Waited::kReady;
  }
}

}  // namespace

int http_status(StatusCode code) {
  switch (code) {
    case StatusCode::kInvalidArgument:
    case StatusCode::kOutOfRange:
    case StatusCode::kUnsupported:
      return 400;
    case StatusCode::kNotFound:
      return 404;
    case StatusCode::kResourceExhausted:
    // 503, not 500: the same request may succeed later.
    case StatusCode::kCancelled:
      return 503;
    default:
      return 500;
  }
}

HttpResponse client_gone() {
  return message_error(kClientGone, "the connection was closed before the answer");
}

/// An encoder for one thread, given back afterwards.
class TextJobs::BorrowedEncoder {
 public:
  explicit BorrowedEncoder(TextJobs& jobs) : jobs_(jobs) {
    std::unique_lock lock(jobs_.mutex_);
    jobs_.encoder_idle_.wait(lock, [&] { return !jobs_.idle_encoders_.empty(); });
    // The one that has rested longest, so that each one's caches fill early rather than some day.
    encoder_ = std::move(jobs_.idle_encoders_.front());
    jobs_.idle_encoders_.pop_front();
  }

  BorrowedEncoder(const BorrowedEncoder&) = delete;
  BorrowedEncoder& operator=(const BorrowedEncoder&) = delete;

  ~BorrowedEncoder() {
    {
      const std::lock_guard lock(jobs_.mutex_);
      jobs_.idle_encoders_.push_back(std::move(encoder_));
    }
    jobs_.encoder_idle_.notify_one();
  }

  tokenizer::TokenEncoder& operator*() { return *encoder_; }

 private:
  TextJobs& jobs_;
  std::unique_ptr<tokenizer::TokenEncoder> encoder_;
};

TextJobs::TextJobs(const tokenizer::Tokenizer& tokenizer, GenerationQueue& queue,
                   std::chrono::milliseconds timeout, uint64_t seed)
    : tokenizer_(tokenizer), queue_(queue), timeout_(timeout), seeds_(seed) {
  const int encoders = std::min(available_processors(), kMaxEncoders);
  for (int i = 0; i < encoders; ++i) {
    idle_encoders_.push_back(tokenizer_.new_encoder(DType::kInt32));
  }
}

TextJobs::~TextJobs() = default;

Result<std::vector<int32_t>> TextJobs::encode(std::string_view text) {
  return tokenizer::encode_text(*BorrowedEncoder(*this), text);
}

uint64_t TextJobs::new_seed() {
  const std::lock_guard lock(mutex_);
  return seeds_();
}

Result<bool> TextJobs::wait(GenerationTicket& ticket, int client,
                            Clock::time_point deadline) const {
  const Waited waited = wait_for(ticket, client, deadline);
  if (waited == Waited::kReady) return true;
  // Nobody will read it: the engine's room goes to others at its next step.
  ticket.cancel();
  if (waited == Waited::kGone) return false;
  return make_error(StatusCode::kCancelled, "the request took longer than {:.3g} s",
                    std::chrono::duration<double>(timeout_).count());
}

}  // namespace meg::serving
