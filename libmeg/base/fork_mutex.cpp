#include "libmeg/base/fork_mutex.h"

#include <pthread.h>

namespace meg {
namespace {

std::mutex held_at_fork;

// Before main: a child of a fork must never find it half done. Without memory for it, a fork in the
// middle of a section is what it is everywhere else.
[[maybe_unused]] const int registered = ::pthread_atfork(
    [] { held_at_fork.lock(); }, [] { held_at_fork.unlock(); }, [] { held_at_fork.unlock(); });

}  // namespace

std::mutex& fork_mutex() { return held_at_fork; }

}  // namespace meg
