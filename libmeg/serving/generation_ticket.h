#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/io/file_descriptor.h"
#include "libmeg/serving/generation_engine.h"

namespace meg::serving {

/// The result of a job: its texts in the order of the request.
using GenerationOutcome = std::vector<GeneratedText>;

/// Held by the thread that requested a job and by the queue. Each function may be called from any
/// thread.
class GenerationTicket {
 public:
  /// Errors: kResourceExhausted without file descriptors.
  static Result<std::shared_ptr<GenerationTicket>> make();

  /// Readable, for poll(), once take() has an answer.
  int ready_fd() const { return ready_.get(); }

  /// May be called once, and only after ready_fd() was readable.
  Result<GenerationOutcome> take();

  /// Declares that the outcome is no longer wanted: the job leaves the queue or the engine at the
  /// next step.
  void cancel() { cancelled_ = true; }

  bool cancelled() const { return cancelled_; }

  /// Called by the queue; only the first call has an effect.
  void finish(Result<GenerationOutcome> outcome);

 private:
  explicit GenerationTicket(io::FileDescriptor ready) : ready_(std::move(ready)) {}

  io::FileDescriptor ready_;
  std::atomic<bool> cancelled_ = false;
  std::mutex mutex_;
  std::optional<Result<GenerationOutcome>> outcome_;
};

}  // namespace meg::serving
