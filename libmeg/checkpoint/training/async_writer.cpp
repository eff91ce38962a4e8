#include "libmeg/checkpoint/training/async_writer.h"

#include <memory>
#include <new>
#include <system_error>
#include <utility>

#include "libmeg/checkpoint/training/write_training_checkpoint.h"

namespace meg::checkpoint {

AsyncWriter::~AsyncWriter() {
  if (thread_.joinable()) thread_.join();
}

Status AsyncWriter::finish() {
  if (!thread_.joinable()) return Status();
  thread_.join();
  if (status_.ok()) saved_iteration_ = iteration_;
  return std::exchange(status_, Status());
}

Status AsyncWriter::save(const std::string& save_dir, TrainingState&& state,
                         const TrainingFileOptions& options) {
  MEG_RETURN_IF_ERROR(finish());
  iteration_ = state.iteration;
  auto snapshot = std::make_shared<TrainingState>(std::move(state));
  busy_ = true;
  try {
    thread_ = std::thread([this, save_dir, options, snapshot]() mutable {
      try {
        status_ = write_training_checkpoint(save_dir, {snapshot.get(), 1}, options);
      } catch (const std::bad_alloc&) {
        status_ = Status(StatusCode::kResourceExhausted, "out of memory");
      }
      snapshot.reset();
      busy_ = false;
    });
  } catch (const std::system_error& error) {
    busy_ = false;
    state = std::move(*snapshot);
    return make_error(StatusCode::kResourceExhausted, "{}: cannot save: no thread: {}", save_dir,
                      error.what());
  }
  return Status();
}

}  // namespace meg::checkpoint
