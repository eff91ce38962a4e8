#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/io/file_descriptor.h"
#include "libmeg/serving/generation_engine.h"

namespace meg::serving {

/// The result of a job: its texts in the order of the request.
using GenerationOutcome = std::vector<GeneratedText>;

/// What has been added to a text: to its tokens, logprobs and top_logprobs.
struct TextProgress {
  std::vector<int32_t> tokens = {};  ///< After the prompt.
  std::vector<float> logprobs = {};  ///< Of places of the prompt first.
  std::vector<std::vector<TokenLogprob>> top_logprobs = {};
  bool has_ended = false;  ///< No more will come.
};

/// Held by the thread that requested a job and by the queue. Each function may be called from any
/// thread.
class GenerationTicket {
 public:
  /// texts: of a job that streams; 0: take_progress() is not wanted.
  /// Errors: kResourceExhausted without file descriptors.
  static Result<std::shared_ptr<GenerationTicket>> make(size_t texts = 0);

  /// Readable, for poll(), once take() has an answer, and while take_progress() has one.
  int ready_fd() const { return ready_.get(); }

  /// Whether take() has an answer.
  bool has_outcome() const;

  /// What has come since the last call, for each text of a job that streams; all of it has once
  /// has_outcome() is true. It is part of the outcome too, and takes no more memory than that.
  std::vector<TextProgress> take_progress();

  /// May be called once, and only once has_outcome() is true.
  Result<GenerationOutcome> take();

  /// Ends one text of the job, of which something has come, before the next step; the outcome has
  /// what was made of it until then. Not a beam search.
  void end_text(size_t text);

  /// Declares that the outcome is no longer wanted: the job leaves the queue or the engine at the
  /// next step.
  void cancel() { cancelled_ = true; }

  bool cancelled() const { return cancelled_; }

  /// Called by the queue, as the functions below: whether end_text() was.
  bool is_ended(size_t text) const;

  /// Adds to what take_progress() gives.
  void add_progress(size_t text, TextProgress progress);

  /// Only the first call has an effect.
  void finish(Result<GenerationOutcome> outcome);

 private:
  GenerationTicket(io::FileDescriptor ready, size_t texts)
      : ready_(std::move(ready)), progress_(texts) {}

  void signal() const;

  io::FileDescriptor ready_;
  std::atomic<bool> cancelled_ = false;
  mutable std::mutex mutex_;
  std::vector<TextProgress> progress_;  ///< Empty where the job does not stream.
  std::set<size_t> ended_;
  std::optional<Result<GenerationOutcome>> outcome_;
};

}  // namespace meg::serving
