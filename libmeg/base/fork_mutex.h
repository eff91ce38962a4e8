#pragma once

#include <mutex>

namespace meg {

/// Guards short sections of what lives as long as the process. fork() waits for the thread that
/// holds it, so that in the child it is free, and what it guards is whole.
std::mutex& fork_mutex();

}  // namespace meg
