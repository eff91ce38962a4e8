#pragma once

#include <c10/core/Event.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "libmeg/base/status.h"
#include "libmeg/parallel/internal/roll_call.h"

namespace meg::parallel {

/// Finds out that another rank failed, is gone or does not come, while this rank waits for its GPU,
/// which would wait for the other forever. Each rank listens to the one after it, whose
/// connection ends with its process, and looks for the failure that a rank has claimed; what is
/// queued on the GPU may take a time-out at most.
class RankWatch {
 public:
  struct Options {
    int rank = 0;
    int world_size = 1;
    std::chrono::milliseconds timeout;
    std::string failure_key;  ///< In the store, once a rank has failed.
    /// Called once at most, on a thread of the watch.
    std::function<void(const Status&)> on_lost;
  };

  /// store: a connection of its own. listening: a group of all ranks of its own, on CPUs, whose
  /// calls have no time-out.
  RankWatch(c10::intrusive_ptr<c10d::Store> store, c10::intrusive_ptr<c10d::Backend> listening,
            RollCall roll_call, Options options);
  ~RankWatch();
  RankWatch(const RankWatch&) = delete;
  RankWatch& operator=(const RankWatch&) = delete;

  /// Something that is queued on the GPU, watched until it is done.
  struct Operation {
    std::string what;  ///< For errors.
    std::chrono::steady_clock::time_point begun;
    c10::intrusive_ptr<c10d::Work> work;  ///< Once it is queued. It keeps tensors alive,
    std::optional<c10::Event> done;       ///< so this is in its place once it is waited for.
  };

  Operation& begin(std::string what);
  void queued(Operation& operation, const c10::intrusive_ptr<c10d::Work>& work);

  /// What is queued now on the calling thread's current stream comes after the operation, which
  /// nobody else uses any more.
  void waited_for(Operation& operation, at::DeviceType device);

  /// It was not queued, or nobody waits for it.
  void forget(Operation& operation);

  /// From now on nothing is lost: ranks end.
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
  c10::intrusive_ptr<c10d::Work> farewell_;  ///< Of the rank after this one; it never comes.
  std::mutex mutex_;                         ///< Of all that follows.
  std::condition_variable stopped_;
  bool stopping_ = false;
  bool lost_ = false;
  std::list<Operation> operations_;  ///< In the order in which they were begun.
  std::thread listener_, watcher_;   ///< Last: they use the rest.
};

}  // namespace meg::parallel
