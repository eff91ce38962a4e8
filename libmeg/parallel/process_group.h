#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "libmeg/base/result.h"

namespace meg::parallel {

enum class Reduction : uint8_t { kSum, kMax, kMin };

/// A collective in progress. The tensors belong to it until wait() returns.
class Work {
 public:
  virtual ~Work() = default;

  /// Returns when the result can be used: on a CPU when it is complete, on a GPU when work queued
  /// afterwards on the current stream will see it. Errors: also those of the start; kIoError if
  /// another rank died or does not respond in time.
  virtual Status wait() = 0;
};

using PendingWork = std::unique_ptr<Work>;

/// Ranks that compute together. All of them call the same functions in the same order, with tensors
/// of the same types and sizes: dense, on the CPU for Gloo, on this rank's GPU for NCCL. A group is
/// used by one thread. Ranks are numbers within the group.
class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Reduces `tensor` element-wise over the ranks, in place, with the same bits on all of them.
  virtual PendingWork start_all_reduce(at::Tensor tensor, Reduction reduction) = 0;

  /// Concatenates the `part`s of the ranks in `whole`, which has size() times as many elements.
  /// `part` may be this rank's place in `whole`.
  virtual PendingWork start_all_gather(at::Tensor whole, at::Tensor part) = 0;

  /// Divides `whole` into size() equal parts and sums this rank's part over the ranks, in `part`,
  /// which may be that part of `whole`; the rest of `whole` is undefined afterwards.
  virtual PendingWork start_reduce_scatter(at::Tensor part, at::Tensor whole) = 0;

  /// Sends to each rank in turn its number of rows of `sent`, and receives from each in turn its
  /// number of rows of `received`; the numbers sum to the tensors' rows.
  virtual PendingWork start_all_to_all(at::Tensor received, std::vector<int64_t> received_rows,
                                       at::Tensor sent, std::vector<int64_t> sent_rows) = 0;

  /// Copies `source`'s tensor to all ranks.
  virtual PendingWork start_broadcast(at::Tensor tensor, int source) = 0;

  /// Sends to one rank: messages between two ranks arrive in the order in which they are sent.
  virtual PendingWork start_send(at::Tensor tensor, int destination) = 0;
  virtual PendingWork start_receive(at::Tensor tensor, int source) = 0;

  /// Returns when every rank has called it.
  virtual Status barrier() = 0;

  // The same, but they wait for the result.

  Status all_reduce(at::Tensor tensor, Reduction reduction = Reduction::kSum) {
    return start_all_reduce(std::move(tensor), reduction)->wait();
  }

  Status all_gather(at::Tensor whole, at::Tensor part) {
    return start_all_gather(std::move(whole), std::move(part))->wait();
  }

  Status reduce_scatter(at::Tensor part, at::Tensor whole) {
    return start_reduce_scatter(std::move(part), std::move(whole))->wait();
  }

  Status all_to_all(at::Tensor received, std::vector<int64_t> received_rows, at::Tensor sent,
                    std::vector<int64_t> sent_rows) {
    return start_all_to_all(std::move(received), std::move(received_rows), std::move(sent),
                            std::move(sent_rows))
        ->wait();
  }

  Status broadcast(at::Tensor tensor, int source) {
    return start_broadcast(std::move(tensor), source)->wait();
  }

  Status send(at::Tensor tensor, int destination) {
    return start_send(std::move(tensor), destination)->wait();
  }

  Status receive(at::Tensor tensor, int source) {
    return start_receive(std::move(tensor), source)->wait();
  }
};

/// Gathers equally many numbers of each rank, rank after rank, on all of them.
Result<std::vector<double>> gather(ProcessGroup& group, std::vector<double> numbers);

/// Replaces `numbers` by those of the rank `source`, whatever their count.
Status broadcast(ProcessGroup& group, std::vector<int64_t>& numbers, int source);

/// A group of this rank only: nothing is sent, and tensors stay unchanged.
std::shared_ptr<ProcessGroup> single_rank_group() noexcept;

}  // namespace meg::parallel
