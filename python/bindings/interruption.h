#pragma once

#include <atomic>
#include <functional>

#include "libmeg/base/status.h"

namespace meg::python {

/// Runs `work` in a thread of its own, without the GIL, while this thread lets Python handle
/// signals. If a handler raises, as that of Ctrl-C does, `stop` becomes true, and its exception is
/// raised once `work` has returned. Throws Failure for an error of `work`, and what it throws.
void run_interruptibly(const std::function<Status(const std::atomic<bool>& stop)>& work);

}  // namespace meg::python
