#pragma once

#include <c10/core/Event.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "libmeg/base/condition_variable.h"
#include "libmeg/base/status.h"
#include "libmeg/parallel/internal/roll_call.h"

namespace meg::parallel {

/// Detects that another rank failed, died or does not arrive while this rank waits for its GPU,
/// which would otherwise wait forever. Each rank listens to the next one, whose connection ends
/// with its process, and polls for the failure that a rank has claimed; work queued on the GPU may
/// take at most the timeout.
class RankWatch {
 public:
  struct Options {
    int rank = 0;
    int world_size = 1;
    std::chrono::milliseconds timeout;
    std::string failure_key;  ///< Key in the store, set once a rank has failed.
    /// Called at most once, on a thread of the watch.
    std::function<void(const Status&)> on_lost;
  };

  /// store: a separate connection. listening: a separate group of all ranks, on CPUs, whose calls
  /// have no timeout.
  RankWatch(c10::intrusive_ptr<c10d::Store> store, c10::intrusive_ptr<c10d::Backend> listening,
            RollCall roll_call, Options options);
  ~RankWatch();
  RankWatch(const RankWatch&) = delete;
  RankWatch& operator=(const RankWatch&) = delete;

  /// An operation queued on the GPU, which is watched until it is done.
  struct Operation {
    std::string what;  ///< For errors.
    std::chrono::steady_clock::time_point begun;
    c10::intrusive_ptr<c10d::Work> work;  ///< Set once it is queued. It keeps tensors alive,
    std::optional<c10::Event> done;       ///< so this replaces it once it is waited for.
  };

  Operation& begin(std::string what);
  void queued(Operation& operation, const c10::intrusive_ptr<c10d::Work>& work);

  /// Records that work queued from now on the calling thread's current stream follows the
  /// operation, which is not used otherwise any more.
  void waited_for(Operation& operation, at::DeviceType device);

  /// Stops watching an operation that was not queued or is not waited for.
  void forget(Operation& operation);

  /// Stops the watch, because ranks are about to end.
  void stop();

 private:
  void listen(int next);
  void look_around();
  Status look_at_store();
  Status look_at_operations();
  std::string late_operation();
  bool is_stopping();
  void lose(const Status& status);

  c10::intrusive_ptr<c10d::Store> store_;
  c10::intrusive_ptr<c10d::Backend> listening_;
  RollCall roll_call_;
  Options options_;
  c10::intrusive_ptr<c10d::Work>
      farewell_;      ///< A receive from the next rank, which never completes.
  std::mutex mutex_;  ///< Guards all members below.
  std::condition_variable stopped_;
  bool stopping_ = false;
  bool lost_ = false;
  std::list<Operation> operations_;  ///< In the order in which they were started.
  std::thread listener_, watcher_;   ///< Last, because they use the other members.
};

}  // namespace meg::parallel
