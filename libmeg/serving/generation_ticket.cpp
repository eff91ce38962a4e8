#include "libmeg/serving/generation_ticket.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <utility>

namespace meg::serving {

Result<std::shared_ptr<GenerationTicket>> GenerationTicket::make() {
  // A descriptor rather than a condition variable: whoever waits must also notice that the client
  // hangs up, and poll() waits for both.
  io::FileDescriptor ready(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "event of a request");
  if (!ready.is_open()) {
    return make_error(StatusCode::kResourceExhausted, "no file descriptor is left for a request");
  }
  return std::shared_ptr<GenerationTicket>(new GenerationTicket(std::move(ready)));
}

Result<GenerationOutcome> GenerationTicket::take() {
  const std::lock_guard lock(mutex_);
  if (!outcome_.has_value()) {
    return make_error(StatusCode::kInternal, "a request's outcome was taken before its time");
  }
  return std::move(*outcome_);
}

void GenerationTicket::finish(Result<GenerationOutcome> outcome) {
  {
    const std::lock_guard lock(mutex_);
    if (outcome_.has_value()) return;
    outcome_ = std::move(outcome);
  }
  const uint64_t one = 1;
  while (::write(ready_.get(), &one, sizeof(one)) < 0 && errno == EINTR) {
  }
}

}  // namespace meg::serving
