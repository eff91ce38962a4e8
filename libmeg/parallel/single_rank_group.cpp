#include <ATen/ATen.h>

#include "libmeg/libtorch/torch_guard.h"
#include "libmeg/parallel/process_group.h"

namespace meg::parallel {
namespace {

class DoneWork : public Work {
 public:
  explicit DoneWork(Status status = {}) : status_(std::move(status)) {}

  Status wait() override { return status_; }

 private:
  Status status_;
};

class SingleRankGroup : public ProcessGroup {
 public:
  int rank() const override { return 0; }

  int size() const override { return 1; }

  PendingWork start_all_reduce(at::Tensor /*tensor*/, Reduction /*reduction*/) override {
    return std::make_unique<DoneWork>();
  }

  PendingWork start_all_gather(at::Tensor whole, at::Tensor part) override {
    return copy(whole, part);
  }

  PendingWork start_reduce_scatter(at::Tensor part, at::Tensor whole) override {
    return copy(part, whole);
  }

  PendingWork start_all_to_all(at::Tensor received, std::vector<int64_t> /*received_rows*/,
                               at::Tensor sent, std::vector<int64_t> /*sent_rows*/) override {
    return copy(received, sent);
  }

  PendingWork start_broadcast(at::Tensor /*tensor*/, int /*source*/) override {
    return std::make_unique<DoneWork>();
  }

  PendingWork start_send(at::Tensor /*tensor*/, int destination) override {
    return nobody(destination);
  }

  PendingWork start_receive(at::Tensor /*tensor*/, int source) override { return nobody(source); }

  Status barrier() override { return {}; }

 private:
  // A part may be the whole itself, which copy_() would have to be told.
  static PendingWork copy(const at::Tensor& to, const at::Tensor& from) {
    return std::make_unique<DoneWork>(libtorch::torch_guard([&] {
      if (!to.is_same(from)) to.view(-1).copy_(from.view(-1));
      return Status();
    }));
  }

  // An error and not a wait: with nobody there it would never end.
  static PendingWork nobody(int other) {
    return std::make_unique<DoneWork>(
        make_error(StatusCode::kInvalidArgument, "rank {}: expected one of a group of 1", other));
  }
};

}  // namespace

std::shared_ptr<ProcessGroup> single_rank_group() noexcept {
  // One for all: it has no state.
  static const auto group = std::make_shared<SingleRankGroup>();
  return group;
}

}  // namespace meg::parallel
