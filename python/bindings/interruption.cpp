#include "python/bindings/interruption.h"

#include <nanobind/nanobind.h>

#include <chrono>
#include <future>
#include <system_error>

#include "python/bindings/errors.h"

namespace meg::python {

namespace nb = nanobind;

void run_interruptibly(const std::function<Status(const std::atomic<bool>& stop)>& work) {
  constexpr auto kInterval = std::chrono::milliseconds(50);
  std::atomic<bool> stop = false;
  bool raised = false;
  std::future<Status> done;
  {
    const nb::gil_scoped_release release;
    try {
      done = std::async(std::launch::async, [&] { return work(stop); });
    } catch (const std::system_error& error) {
      throw Failure{make_error(StatusCode::kResourceExhausted, "a thread: {}", error.what())};
    }
    while (done.wait_for(kInterval) != std::future_status::ready) {
      if (stop) continue;
      const nb::gil_scoped_acquire acquire;
      raised = PyErr_CheckSignals() != 0;
      if (raised) stop = true;
    }
  }
  if (raised) throw nb::python_error();
  check(done.get());
}

}  // namespace meg::python
