#include "tools/common/interruption.h"

#include <atomic>
#include <csignal>

namespace meg::tools {
namespace {

std::atomic<int> first_signal = 0;
static_assert(std::atomic<int>::is_always_lock_free);

void take_note(int signal) {
  // Only the first signal counts: the process later ends by it.
  int none = 0;
  first_signal.compare_exchange_strong(none, signal);
}

}  // namespace

void stop_at_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) {
    struct sigaction action {};

    action.sa_handler = take_note;
    // SA_RESETHAND gives the second signal its default action back, so that an impatient user can
    // end a program that takes long to stop. SA_RESTART: interrupted() is asked at places made for
    // it, not wherever a call happens to wait.
    // No person asks for SIGPIPE, so that a second one asks for nothing more.
    action.sa_flags = static_cast<int>(SA_RESTART | (signal == SIGPIPE ? 0 : SA_RESETHAND));

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
