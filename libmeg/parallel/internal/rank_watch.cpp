#include "libmeg/parallel/internal/rank_watch.h"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <utility>
#include <vector>

#include "libmeg/libtorch/torch_guard.h"

// Two threads. The listener waits for a message of the next rank that never comes: its connection
// ends with the process that held it, so a killed rank is noticed within moments. The watcher looks
// every 200 ms for a claimed failure in the store and for an operation that is on the GPU for
// longer than the time-out. Whichever finds something calls on_lost once.
//
// mutex_ guards the list of operations and the flags; the main thread takes it a few times per
// collective, for no longer than a list operation.

namespace meg::parallel {
namespace {

/// The time between looks at the store and at what is queued.
constexpr auto kWatchPeriod = std::chrono::milliseconds(200);

}  // namespace

RankWatch::RankWatch(c10::intrusive_ptr<c10d::Store> store,
                     c10::intrusive_ptr<c10d::Backend> listening, RollCall roll_call,
                     Options options)
    : store_(std::move(store)),
      listening_(std::move(listening)),
      roll_call_(std::move(roll_call)),
      options_(std::move(options)) {
  const int next = (options_.rank + 1) % options_.world_size;
  std::vector<at::Tensor> nothing = {at::zeros({1}, at::kByte)};
  farewell_ = listening_->recv(nothing, next, /*tag=*/0);
  listener_ = std::thread([this, next] { listen(next); });
  watcher_ = std::thread([this] { look_around(); });
}

// The listener cannot be stopped: its receive is aborted.
RankWatch::~RankWatch() {
  stop();
  farewell_->abort();
  listener_.join();
}

void RankWatch::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stopped_.notify_all();
  if (watcher_.joinable()) watcher_.join();
}

RankWatch::Operation& RankWatch::begin(std::string what) {
  const std::lock_guard lock(mutex_);
  // A std::list, because callers keep references to their operations while others come and go.
  return operations_.emplace_back(Operation{
      .what = std::move(what), .begun = std::chrono::steady_clock::now(), .work = {}, .done = {}});
}

void RankWatch::queued(Operation& operation, const c10::intrusive_ptr<c10d::Work>& work) {
  const std::lock_guard lock(mutex_);
  operation.work = work;
}

void RankWatch::waited_for(Operation& operation, at::DeviceType device) {
  // Recorded after the wait that the stream was just given: once the event is done, so is the
  // operation. The work itself is released since it keeps the operation's tensors in memory.
  c10::Event done(device);
  const c10::impl::VirtualGuardImpl guard(device);
  done.record(guard.getStream(guard.getDevice()));
  const std::lock_guard lock(mutex_);
  operation.work.reset();
  operation.done.emplace(std::move(done));
}

void RankWatch::forget(Operation& operation) {
  const std::lock_guard lock(mutex_);
  operations_.remove_if([&](const Operation& other) { return &other == &operation; });
}

void RankWatch::listen(int next) {
  // It returns when the rank is gone, or here by abort().
  (void)libtorch::torch_guard([this] {
    farewell_->wait();
    return Status();
  });
  lose(make_error(StatusCode::kIoError, "rank {} is gone", next));
}

void RankWatch::look_around() {
  while (!is_stopping()) {
    for (const auto look : {&RankWatch::look_at_store, &RankWatch::look_at_operations}) {
      const Status found = libtorch::torch_guard([&] { return (this->*look)(); });
      if (!found.ok()) return lose(found);
    }
  }
}

Status RankWatch::look_at_store() {
  bool failed = false;
  const Status looked = libtorch::torch_guard([&] {
    failed = store_->check({options_.failure_key});
    return Status();
  });
  if (!looked.ok()) return Status(StatusCode::kIoError, "the ranks' store is gone");
  return failed ? Status(StatusCode::kIoError, "another rank failed") : Status();
}

Status RankWatch::look_at_operations() {
  const std::string late = late_operation();
  if (late.empty()) return {};
  return make_error(StatusCode::kIoError, "{}: timed out after {} s: {}", late,
                    std::chrono::duration_cast<std::chrono::seconds>(options_.timeout).count(),
                    roll_call_.report());
}

/// Empty where none is. Forgets what is done.
std::string RankWatch::late_operation() {
  const std::lock_guard lock(mutex_);
  const auto is_done = [](const Operation& operation) {
    return operation.done.has_value() ? operation.done->query()
                                      : operation.work && operation.work->isCompleted();
  };
  operations_.remove_if([&](const Operation& operation) {
    // Whoever has not waited for it still uses it.
    return operation.done.has_value() && is_done(operation);
  });
  const auto now = std::chrono::steady_clock::now();
  for (const Operation& operation : operations_) {
    // They are in the order in which they were begun: all further ones are younger.
    if (now - operation.begun < options_.timeout) break;
    if (!is_done(operation)) return operation.what;
  }
  return {};
}

/// Returns after the next period, or at once when it is to stop.
bool RankWatch::is_stopping() {
  // Waits on the condition, so that stopping does not take a period.
  std::unique_lock lock(mutex_);
  return stopped_.wait_for(lock, kWatchPeriod, [this] { return stopping_; });
}

void RankWatch::lose(const Status& status) {
  {
    const std::lock_guard lock(mutex_);
    // Ranks that end at the end of a run close their connections too: that is no loss.
    if (stopping_ || std::exchange(lost_, true)) return;
  }
  // Call it without the lock, as on_lost ends the process and may take long to say why.
  options_.on_lost(status);
}

}  // namespace meg::parallel
