#include "tools/common/interruption.h"

#include <atomic>
#include <csignal>
#include <cstdint>
#include <ctime>

// GNU timeout, launchers and terminals send one request twice, to the process and to its group,
// within milliseconds. Only a signal that comes a second after the first is an impatient user's.

namespace meg::tools {
namespace {

constexpr int64_t kNanosecondsOfASecond = 1'000'000'000;
constexpr int64_t kOneRequest = kNanosecondsOfASecond;

std::atomic<int> first_signal = 0;
std::atomic<int64_t> asked_at = 0;  // when the first one came that a person may have sent
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<int64_t>::is_always_lock_free);

int64_t nanoseconds_now() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * kNanosecondsOfASecond + now.tv_nsec;
}

/// Calls nothing that is not safe in a signal's handler.
void take_note(int signal) {
  // Only the first signal counts: the process later ends by it.
  int none = 0;
  first_signal.compare_exchange_strong(none, signal);
  if (signal == SIGPIPE) return;  // Each write without a reader sends one.
  const int64_t now = nanoseconds_now();
  int64_t first = 0;
  if (asked_at.compare_exchange_strong(first, now) || now - first < kOneRequest) return;
  // The default action comes when this handler returns.
  std::signal(signal, SIG_DFL);
  ::raise(signal);
}

}  // namespace

void stop_at_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) {
    struct sigaction action {};

    action.sa_handler = take_note;
    // SA_RESTART: interrupted() is asked at places made for it, not wherever a call happens to
    // wait.
    action.sa_flags = SA_RESTART;

    struct sigaction before {};

    sigaction(signal, nullptr, &before);
    // nohup and shells that start a job in the background switch signals off on purpose.
    if (before.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);
  }
}

bool interrupted() { return interrupting_signal() != 0; }

int interrupting_signal() { return first_signal; }

void take_as_regular_end(int signal) { first_signal.compare_exchange_strong(signal, 0); }

}  // namespace meg::tools
