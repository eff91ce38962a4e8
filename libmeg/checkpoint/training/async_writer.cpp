#include "libmeg/checkpoint/training/async_writer.h"

#include <new>
#include <system_error>
#include <utility>

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
