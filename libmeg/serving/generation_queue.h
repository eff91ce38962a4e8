#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "libmeg/base/condition_variable.h"
#include "libmeg/base/result.h"
#include "libmeg/serving/generation_engine.h"
#include "libmeg/serving/generation_ticket.h"

namespace meg::serving {

/// The request of one client.
using GenerationJob = std::vector<GenerationRequest>;

/// Jobs of many threads, which one engine on a separate thread generates together: between two
/// steps waiting texts are added as long as the engine has space, first those of clients that have
/// the fewest in it, of these in the order of arrival; beam searches and other texts do not wait
/// for each other. Each function may be called from any thread.
class GenerationQueue {
 public:
  struct Load {
    int64_t waiting = 0;        ///< Jobs of which some text waits for room,
    int64_t waiting_texts = 0;  ///< and these texts, those of jobs not yet looked at included.
    int64_t active = 0;         ///< Texts and beam searches in the engine.
    int64_t beam_searches = 0;
    EngineCounters engine;
    double step_seconds = 0;  ///< How long the engine has been at its present step; 0 at rest.
    Status lost, failure;     ///< The engine's.
  };

  /// max_waiting: jobs, at least 1.
  GenerationQueue(std::unique_ptr<GenerationEngine> engine, int64_t max_waiting);
  GenerationQueue(const GenerationQueue&) = delete;
  GenerationQueue& operator=(const GenerationQueue&) = delete;

  /// Like stop() without a grace period.
  ~GenerationQueue();

  /// streams: whether the ticket's take_progress() is wanted. client: jobs of equal ones share what
  /// the engine gives to one.
  /// The ticket's outcome may be an error: an invalid request (kInvalidArgument, kOutOfRange),
  /// kCancelled after stop(), or the error of a step.
  /// Errors: kResourceExhausted where max_waiting jobs wait, kCancelled after stop().
  Result<std::shared_ptr<GenerationTicket>> submit(GenerationJob job, bool streams = false,
                                                   std::string client = {});

  Load load() const;

  /// Refuses waiting and new jobs; jobs that are being generated may continue for `grace`, and are
  /// then cancelled. Returns when the engine is idle.
  void stop(std::chrono::milliseconds grace);

 private:
  struct Entry;
  class Worker;

  std::unique_ptr<GenerationEngine> engine_;
  const int64_t max_waiting_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Entry>> incoming_;  ///< Not yet taken by the engine's thread.
  Load load_;
  std::optional<std::chrono::steady_clock::time_point> step_begin_;  ///< Of the current step.
  bool stopping_ = false;
  std::chrono::steady_clock::time_point end_of_grace_;
  std::mutex join_mutex_;
  std::thread thread_;
};

}  // namespace meg::serving
