#include "libmeg/parallel/observed_group.h"

#include <ATen/ATen.h>

#include <utility>

// Wraps a group for the trace of a run. Only work that is waited for is reported: the interval in
// which this rank could not continue is what the trace shows; the time of issue is logged beside
// it.

namespace meg::parallel {
namespace {

class ObservedGroup : public ProcessGroup {
 public:
  ObservedGroup(std::shared_ptr<ProcessGroup> group, std::string name,
                CommunicationObserver observer)
      : group_(std::move(group)), name_(std::move(name)), observer_(std::move(observer)) {}

  int rank() const override { return group_->rank(); }

  int size() const override { return group_->size(); }

  PendingWork start_all_reduce(at::Tensor tensor, Reduction reduction) override {
    return observed("all-reduce", tensor,
                    [&] { return group_->start_all_reduce(tensor, reduction); });
  }

  PendingWork start_all_gather(at::Tensor whole, at::Tensor part) override {
    return observed("all-gather", whole, [&] { return group_->start_all_gather(whole, part); });
  }

  PendingWork start_reduce_scatter(at::Tensor part, at::Tensor whole) override {
    return observed("reduce-scatter", whole,
                    [&] { return group_->start_reduce_scatter(part, whole); });
  }

  PendingWork start_all_to_all(at::Tensor received, std::vector<int64_t> received_rows,
                               at::Tensor sent, std::vector<int64_t> sent_rows) override {
    return observed("all-to-all", sent, [&] {
      return group_->start_all_to_all(received, std::move(received_rows), sent,
                                      std::move(sent_rows));
    });
  }

  PendingWork start_broadcast(at::Tensor tensor, int source) override {
    return observed("broadcast", tensor, [&] { return group_->start_broadcast(tensor, source); });
  }

  PendingWork start_send(at::Tensor tensor, int destination) override {
    return observed("send", tensor, [&] { return group_->start_send(tensor, destination); });
  }

  PendingWork start_receive(at::Tensor tensor, int source) override {
    return observed("receive", tensor, [&] { return group_->start_receive(tensor, source); });
  }

  // Barriers move no data, and the trace shows what does.
  Status barrier() override { return group_->barrier(); }

 private:
  /// The group outlives its work.
  struct ObservedWork : Work {
    ObservedWork(const ObservedGroup& of, Communication what, PendingWork pending)
        : group(of), communication(what), work(std::move(pending)) {}

    Status wait() override {
      communication.begin = std::chrono::system_clock::now();
      const Status done = work->wait();
      communication.end = std::chrono::system_clock::now();
      group.observer_(communication);
      return done;
    }

    const ObservedGroup& group;
    Communication communication;
    PendingWork work;
  };

  template <class Start>
  PendingWork observed(const char* operation, const at::Tensor& tensor, Start start) const {
    const Communication communication = {.group = name_,
                                         .operation = operation,
                                         .bytes = static_cast<int64_t>(tensor.nbytes()),
                                         .issued = std::chrono::system_clock::now(),
                                         .begin = {},
                                         .end = {}};
    return std::make_unique<ObservedWork>(*this, communication, start());
  }

  std::shared_ptr<ProcessGroup> group_;
  std::string name_;
  CommunicationObserver observer_;
};

}  // namespace

std::shared_ptr<ProcessGroup> observed_group(std::shared_ptr<ProcessGroup> group, std::string name,
                                             CommunicationObserver observer) {
  return std::make_shared<ObservedGroup>(std::move(group), std::move(name), std::move(observer));
}

}  // namespace meg::parallel
