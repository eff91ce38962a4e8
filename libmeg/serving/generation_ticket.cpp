#include "libmeg/serving/generation_ticket.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <iterator>
#include <utility>

namespace meg::serving {

Result<std::shared_ptr<GenerationTicket>> GenerationTicket::make(size_t texts) {
  // A descriptor rather than a condition variable: whoever waits must also notice that the client
  // hangs up, and poll() waits for both.
  io::FileDescriptor ready(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "event of a request");
  if (!ready.is_open()) {
    return make_error(StatusCode::kResourceExhausted, "no file descriptor is left for a request");
  }
  return std::shared_ptr<GenerationTicket>(new GenerationTicket(std::move(ready), texts));
}

Result<GenerationOutcome> GenerationTicket::take() {
  const std::lock_guard lock(mutex_);
  if (!outcome_.has_value()) {
    return make_error(StatusCode::kInternal, "a request's outcome was taken before its time");
  }
  return std::move(*outcome_);
}

bool GenerationTicket::has_outcome() const {
  const std::lock_guard lock(mutex_);
  return outcome_.has_value();
}

std::vector<TextProgress> GenerationTicket::take_progress() {
  const std::lock_guard lock(mutex_);
  std::vector<TextProgress> taken(progress_.size());
  taken.swap(progress_);
  // The outcome stays to be seen.
  uint64_t signals = 0;
  if (!outcome_.has_value()) (void)!::read(ready_.get(), &signals, sizeof(signals));
  return taken;
}

void GenerationTicket::end_text(size_t text) {
  const std::lock_guard lock(mutex_);
  ended_.insert(text);
}

bool GenerationTicket::is_ended(size_t text) const {
  const std::lock_guard lock(mutex_);
  return ended_.contains(text);
}

void GenerationTicket::add_progress(size_t text, TextProgress progress) {
  const std::lock_guard lock(mutex_);
  if (progress_.empty()) return;
  TextProgress& held = progress_[text];
  held.tokens.insert(held.tokens.end(), progress.tokens.begin(), progress.tokens.end());
  held.logprobs.insert(held.logprobs.end(), progress.logprobs.begin(), progress.logprobs.end());
  std::ranges::move(progress.top_logprobs, std::back_inserter(held.top_logprobs));
  held.has_ended = progress.has_ended;
  signal();
}

void GenerationTicket::finish(Result<GenerationOutcome> outcome) {
  const std::lock_guard lock(mutex_);
  if (outcome_.has_value()) return;
  outcome_ = std::move(outcome);
  signal();
}

void GenerationTicket::signal() const {
  const uint64_t one = 1;
  while (::write(ready_.get(), &one, sizeof(one)) < 0 && errno == EINTR) {
  }
}

}  // namespace meg::serving
