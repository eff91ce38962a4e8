#include "libmeg/checkpoint/training/async_writer.h"

#include <new>
#include <system_error>
#include <utility>

// One thread for each task. run() and finish() join it before they touch what it wrote (status_),
// so joining is all the synchronization there is; busy_ alone is atomic, since is_busy() looks at
// it while the thread runs.

namespace meg::checkpoint {

AsyncWriter::~AsyncWriter() {
  if (thread_.joinable()) thread_.join();
}

Status AsyncWriter::finish() {
  if (!thread_.joinable()) return Status();
  thread_.join();
  return std::exchange(status_, Status());
}

Status AsyncWriter::run(std::function<Status()> task) {
  MEG_RETURN_IF_ERROR(finish());
  busy_ = true;
  try {
    thread_ = std::thread([this, task = std::move(task)]() mutable {
      try {
        status_ = task();
      } catch (const std::bad_alloc&) {
        status_ = Status(StatusCode::kResourceExhausted, "out of memory");
      }
      // The snapshot's memory goes back now, and not when the next save begins: it is as large as
      // the weights and the state of the optimizer. Before busy_ is cleared, so that who sees the
      // writer idle can count on that memory.
      task = nullptr;
      busy_ = false;
    });
  } catch (const std::system_error& error) {
    busy_ = false;
    return make_error(StatusCode::kResourceExhausted, "cannot save: no thread: {}", error.what());
  }
  return Status();
}

}  // namespace meg::checkpoint
