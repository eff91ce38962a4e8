#include "libmeg/parallel/internal/c10d_process_group.h"

#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "libmeg/libtorch/torch_guard.h"

namespace meg::parallel {
namespace {

c10d::ReduceOp::RedOpType reduce_op(Reduction reduction) {
  switch (reduction) {
    case Reduction::kMax:
      return c10d::ReduceOp::MAX;
    case Reduction::kMin:
      return c10d::ReduceOp::MIN;
    case Reduction::kSum:
      break;
  }
  return c10d::ReduceOp::SUM;
}

class C10dWork : public Work {
 public:
  /// begin: makes the c10d::Work.
  template <class Begin>
  C10dWork(std::string what, const RollCall& roll_call, Begin begin)
      : what_(std::move(what)), roll_call_(roll_call) {
    // Errors of beginning are kept for wait(), so that callers have one place to look.
    begun_ = libtorch::torch_guard([&] {
      work_ = begin();
      return Status();
    });
  }

  Status wait() override {
    if (!begun_.ok()) return lost(begun_);
    const Status done = libtorch::torch_guard([this] {
      work_->wait();
      return Status();
    });
    return done.ok() ? done : lost(done);
  }

 private:
  Status lost(const Status& status) const {
    const std::string_view why = without_place(status.message());
    // "Timed out" and "timed out" occur in Gloo's and c10d's messages. Which rank did not come they
    // do not say; the roll call does, at the cost of some seconds at the end of a run that has
    // failed anyway.
    if (why.find("imed out") == std::string_view::npos) {
      return make_error(StatusCode::kIoError, "{}: {}", what_, why);
    }
    return make_error(StatusCode::kIoError, "{}: {}: {}", what_, why, roll_call_.report());
  }

  /// Removes the line of source that Gloo's messages begin with: "[/pytorch/...cc:547] ".
  static std::string_view without_place(std::string_view message) {
    const size_t end = message.find("] ");
    const bool has_place = message.starts_with('[') && end != std::string_view::npos;
    return has_place ? message.substr(end + 2) : message;
  }

  std::string what_;
  const RollCall& roll_call_;  ///< The group's, which outlives its work.
  Status begun_;
  c10::intrusive_ptr<c10d::Work> work_;
};

/// NCCL's.
class WatchedWork : public C10dWork {
 public:
  /// operation: begun; both are the group's, which outlives its work.
  template <class Begin>
  WatchedWork(const RollCall& roll_call, RankWatch& watch, RankWatch::Operation& operation,
              Begin begin)
      : C10dWork(operation.what, roll_call,
                 [&] {
                   auto work = begin();
                   watch.queued(operation, work);
                   return work;
                 }),
        watch_(watch),
        operation_(&operation) {}

  // Nobody waited: an error came in between. The operation's tensors may be gone, so it is not
  // watched any further.
  ~WatchedWork() override {
    if (operation_ != nullptr) watch_.forget(*operation_);
  }

  Status wait() override {
    // NCCL's wait() returns at once: it makes the current stream wait. From here on the watch
    // follows an event on that stream.
    const Status waited = C10dWork::wait();
    if (!waited.ok() || operation_ == nullptr) return waited;
    return libtorch::torch_guard([this] {
      watch_.waited_for(*std::exchange(operation_, nullptr), at::kCUDA);
      return Status();
    });
  }

 private:
  RankWatch& watch_;
  RankWatch::Operation* operation_;  ///< Null once it is waited for.
};

class C10dProcessGroup : public ProcessGroup {
 public:
  C10dProcessGroup(c10::intrusive_ptr<c10d::Backend> gloo, std::shared_ptr<NcclTransport> nccl,
                   std::string name, RollCall roll_call)
      : gloo_(std::move(gloo)),
        nccl_(std::move(nccl)),
        name_(std::move(name)),
        roll_call_(std::move(roll_call)) {}

  int rank() const override { return gloo_->getRank(); }

  int size() const override { return gloo_->getSize(); }

  PendingWork start_all_reduce(at::Tensor tensor, Reduction reduction) override {
    return begin("all-reduce", tensor, [&] {
      std::vector<at::Tensor> tensors = {tensor};
      c10d::AllreduceOptions options;
      options.reduceOp = reduce_op(reduction);
      return backend_of(tensor).allreduce(tensors, options);
    });
  }

  PendingWork start_all_gather(at::Tensor whole, at::Tensor part) override {
    return begin("all-gather", part, [&] {
      at::Tensor flat_whole = whole.view(-1);
      at::Tensor flat_part = part.view(-1);
      return backend_of(part)._allgather_base(flat_whole, flat_part);
    });
  }

  PendingWork start_reduce_scatter(at::Tensor part, at::Tensor whole) override {
    return begin("reduce-scatter", part, [&] {
      // Gloo's reduce-scatter sums a copy of the whole and copies the part out of it. Where the
      // part lies in the whole, the sum over the whole in place gives the same result without the
      // copies.
      if (!is_nccls(part) && part.is_alias_of(whole)) {
        std::vector<at::Tensor> tensors = {whole};
        return gloo_->allreduce(tensors);
      }
      at::Tensor flat_whole = whole.view(-1);
      at::Tensor flat_part = part.view(-1);
      return backend_of(part)._reduce_scatter_base(flat_part, flat_whole);
    });
  }

  PendingWork start_all_to_all(at::Tensor received, std::vector<int64_t> received_rows,
                               at::Tensor sent, std::vector<int64_t> sent_rows) override {
    return begin("all-to-all", sent, [&] {
      return backend_of(sent).alltoall_base(received, sent, received_rows, sent_rows);
    });
  }

  PendingWork start_broadcast(at::Tensor tensor, int source) override {
    return begin("broadcast", tensor, [&] {
      std::vector<at::Tensor> tensors = {tensor};
      c10d::BroadcastOptions options;
      options.rootRank = source;
      return backend_of(tensor).broadcast(tensors, options);
    });
  }

  PendingWork start_send(at::Tensor tensor, int destination) override {
    return begin("send", tensor, [&] {
      if (is_nccls(tensor)) return nccl_->send(tensor, destination);
      std::vector<at::Tensor> tensors = {tensor};
      // Gloo matches messages by rank and tag: with numbers for tags, what is sent first is
      // received first.
      return gloo_->send(tensors, destination, sent_[destination]++);
    });
  }

  PendingWork start_receive(at::Tensor tensor, int source) override {
    return begin("receive", tensor, [&] {
      if (is_nccls(tensor)) return nccl_->receive(tensor, source);
      std::vector<at::Tensor> tensors = {tensor};
      return gloo_->recv(tensors, source, received_[source]++);
    });
  }

  Status barrier() override {
    // Barriers are Gloo's also for ranks with GPUs: NCCL's would wait for the host and the GPU.
    return begin("barrier", {}, [&] { return gloo_->barrier(); })->wait();
  }

 private:
  bool is_nccls(const at::Tensor& tensor) const {
    return nccl_ != nullptr && tensor.defined() && !tensor.is_cpu();
  }

  c10d::Backend& backend_of(const at::Tensor& tensor) {
    return is_nccls(tensor) ? nccl_->all_ranks() : *gloo_;
  }

  template <class Begin>
  PendingWork begin(const char* verb, const at::Tensor& tensor, Begin begin) {
    const std::string what = std::string(verb) + " of the " + name_ + " group";
    if (!is_nccls(tensor)) return std::make_unique<C10dWork>(what, roll_call_, begin);
    RankWatch& watch = nccl_->watch();
    return std::make_unique<WatchedWork>(roll_call_, watch, watch.begin(what), begin);
  }

  c10::intrusive_ptr<c10d::Backend> gloo_;
  std::shared_ptr<NcclTransport> nccl_;  ///< Null where tensors are on CPUs.
  std::string name_;
  RollCall roll_call_;
  std::map<int, int> sent_, received_;  ///< Gloo's messages, by rank; their numbers are their tags.
};

}  // namespace

std::shared_ptr<ProcessGroup> c10d_process_group(c10::intrusive_ptr<c10d::Backend> gloo,
                                                 std::shared_ptr<NcclTransport> nccl,
                                                 std::string name, RollCall roll_call) {
  return std::make_shared<C10dProcessGroup>(std::move(gloo), std::move(nccl), std::move(name),
                                            std::move(roll_call));
}

}  // namespace meg::parallel
