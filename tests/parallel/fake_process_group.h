#pragma once

#include <ATen/ATen.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "libmeg/parallel/process_group.h"

namespace meg::test {

/// A group whose other ranks have what this one has, in one process. Counts what is requested.
class FakeProcessGroup : public parallel::ProcessGroup {
 public:
  struct Count {
    int calls = 0;
    int64_t bytes = 0;  ///< Of the tensors that are reduced, or of the whole ones of parts.

    bool operator==(const Count&) const = default;
  };

  FakeProcessGroup(int rank, int size) : rank_(rank), size_(size) {}

  int rank() const override { return rank_; }

  int size() const override { return size_; }

  parallel::PendingWork start_all_reduce(at::Tensor tensor,
                                         parallel::Reduction reduction) override {
    if (reduction == parallel::Reduction::kSum) tensor.mul_(size_);
    return count("all_reduce", tensor);
  }

  parallel::PendingWork start_all_gather(at::Tensor whole, at::Tensor part) override {
    whole.view({size_, -1}).copy_(part.reshape({1, -1}).clone());
    return count("all_gather", whole);
  }

  parallel::PendingWork start_reduce_scatter(at::Tensor part, at::Tensor whole) override {
    part.view(-1).copy_(whole.view({size_, -1})[rank_] * size_);
    return count("reduce_scatter", whole);
  }

  parallel::PendingWork start_all_to_all(at::Tensor received, std::vector<int64_t> received_rows,
                                         at::Tensor sent, std::vector<int64_t> sent_rows) override {
    int64_t begin = 0;
    for (int rank = 0; rank < rank_; ++rank) begin += sent_rows[static_cast<size_t>(rank)];
    const int64_t own = sent_rows[static_cast<size_t>(rank_)];
    int64_t row = 0;
    for (const int64_t rows : received_rows) {
      received.narrow(0, row, rows).copy_(sent.narrow(0, begin, own));
      row += rows;
    }
    return count("all_to_all", sent);
  }

  parallel::PendingWork start_broadcast(at::Tensor tensor, int /*source*/) override {
    return count("broadcast", tensor);
  }

  parallel::PendingWork start_send(at::Tensor tensor, int /*destination*/) override {
    return count("send", tensor);
  }

  parallel::PendingWork start_receive(at::Tensor tensor, int /*source*/) override {
    return count("receive", tensor);
  }

  Status barrier() override { return {}; }

  const std::map<std::string, Count>& counts() const { return counts_; }

 private:
  struct Done : parallel::Work {
    Status wait() override { return {}; }
  };

  parallel::PendingWork count(const std::string& what, const at::Tensor& tensor) {
    ++counts_[what].calls;
    counts_[what].bytes += static_cast<int64_t>(tensor.nbytes());
    return std::make_unique<Done>();
  }

  int rank_, size_;
  std::map<std::string, Count> counts_;
};

}  // namespace meg::test
