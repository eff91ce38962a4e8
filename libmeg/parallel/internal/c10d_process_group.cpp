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
    if (why.find("imed out") == std::string_view::npos) {
      return make_error(StatusCode::kIoError, "{}: {}", what_, why);
    }
    return make_error(StatusCode::kIoError, "{}: {}: {}", what_, why, roll_call_.report());
  }

  /// Without the line of source that Gloo's messages begin with: "[/pytorch/...cc:547] ".
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

class C10dProcessGroup : public ProcessGroup {
 public:
  C10dProcessGroup(c10::intrusive_ptr<c10d::Backend> backend, std::string name, RollCall roll_call)
      : backend_(std::move(backend)), name_(std::move(name)), roll_call_(std::move(roll_call)) {}

  int rank() const override { return backend_->getRank(); }

  int size() const override { return backend_->getSize(); }

  PendingWork start_all_reduce(at::Tensor tensor, Reduction reduction) override {
    return begin("all-reduce", [&] {
      std::vector<at::Tensor> tensors = {std::move(tensor)};
      c10d::AllreduceOptions options;
      options.reduceOp = reduce_op(reduction);
      return backend_->allreduce(tensors, options);
    });
  }

  PendingWork start_all_gather(at::Tensor whole, at::Tensor part) override {
    return begin("all-gather", [&] {
      at::Tensor flat_whole = whole.view(-1);
      at::Tensor flat_part = part.view(-1);
      return backend_->_allgather_base(flat_whole, flat_part);
    });
  }

  PendingWork start_reduce_scatter(at::Tensor part, at::Tensor whole) override {
    return begin("reduce-scatter", [&] {
      at::Tensor flat_whole = whole.view(-1);
      at::Tensor flat_part = part.view(-1);
      return backend_->_reduce_scatter_base(flat_part, flat_whole);
    });
  }

  PendingWork start_broadcast(at::Tensor tensor, int source) override {
    return begin("broadcast", [&] {
      std::vector<at::Tensor> tensors = {std::move(tensor)};
      c10d::BroadcastOptions options;
      options.rootRank = source;
      return backend_->broadcast(tensors, options);
    });
  }

  PendingWork start_send(at::Tensor tensor, int destination) override {
    return begin("send", [&] {
      std::vector<at::Tensor> tensors = {std::move(tensor)};
      return backend_->send(tensors, destination, sent_[destination]++);
    });
  }

  PendingWork start_receive(at::Tensor tensor, int source) override {
    return begin("receive", [&] {
      std::vector<at::Tensor> tensors = {std::move(tensor)};
      return backend_->recv(tensors, source, received_[source]++);
    });
  }

  Status barrier() override {
    return begin("barrier", [&] { return backend_->barrier(); })->wait();
  }

 private:
  template <class Begin>
  PendingWork begin(const char* what, Begin begin) {
    return std::make_unique<C10dWork>(std::string(what) + " of the " + name_ + " group", roll_call_,
                                      begin);
  }

  c10::intrusive_ptr<c10d::Backend> backend_;
  std::string name_;
  RollCall roll_call_;
  std::map<int, int> sent_, received_;  ///< Messages, by rank; their numbers are their tags.
};

}  // namespace

std::shared_ptr<ProcessGroup> c10d_process_group(c10::intrusive_ptr<c10d::Backend> backend,
                                                 std::string name, RollCall roll_call) {
  return std::make_shared<C10dProcessGroup>(std::move(backend), std::move(name),
                                            std::move(roll_call));
}

}  // namespace meg::parallel
