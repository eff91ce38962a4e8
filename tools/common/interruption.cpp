#include "tools/common/interruption.h"

#include <atomic>
#include <csignal>

namespace meg::tools {
namespace {

std::atomic<int> signalled = 0;
static_assert(std::atomic<int>::is_always_lock_free);

}  // namespace

void stop_at_signals() {
  struct sigaction action {};

  action.sa_handler = [](int signal) { signalled = signal; };
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before {};

    sigaction(signal, nullptr, &before);
    if (before.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);
  }
}

bool interrupted() { return interrupting_signal() != 0; }

int interrupting_signal() { return signalled; }

}  // namespace meg::tools
