#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>

#include "libmeg/parallel/parallel_state.h"

namespace meg::parallel {

/// The links to the previous and the next stage of a pipeline. The groups must outlive it. If
/// stages hold several chunks, the first stage follows the last. Sends continue while the stage
/// computes, because otherwise two neighbours that send to each other would wait for each other.
/// On GPUs a message leaves when the last one in its direction is received. A GPU with one queue
/// for all streams (CUDA_DEVICE_MAX_CONNECTIONS=1) does nothing that was queued later until then,
/// so stages should receive what is sent to them before they send further.
/// Mirrors Megatron-LM megatron/core/pipeline_parallel/p2p_communication.py.
class PipelineLinks {
 public:
  /// Maximum number of sends in progress for each micro-batch of a group.
  static constexpr size_t kSendsOfMicroBatch = 2;

  /// group: micro-batches that a chunk processes in a row, if that is more than the number of
  /// stages.
  explicit PipelineLinks(const ParallelState& ranks, int64_t group = 0)
      : stages_(*ranks.pipeline()),
        gradients_(*ranks.pipeline_gradients()),
        group_(static_cast<size_t>(std::max<int64_t>(group, stages_.size()))) {}

  bool is_first() const { return stages_.rank() == 0; }

  bool is_last() const { return stages_.rank() + 1 == stages_.size(); }

  Status send_forward(const at::Tensor& output) { return send(stages_, output, next()); }

  Status send_backward(const at::Tensor& gradient) {
    return send(gradients_, gradient, previous());
  }

  /// Receives into a dense tensor.
  Status receive_forward(const at::Tensor& input) { return stages_.receive(input, previous()); }

  Status receive_backward(const at::Tensor& gradient) {
    return gradients_.receive(gradient, next());
  }

  /// Waits for all sends.
  Status finish() { return finish(0); }

 private:
  struct Sent {
    at::Tensor tensor;  ///< Kept until it is sent.
    PendingWork work;
  };

  int next() const { return (stages_.rank() + 1) % stages_.size(); }

  int previous() const { return (stages_.rank() + stages_.size() - 1) % stages_.size(); }

  Status send(ProcessGroup& group, const at::Tensor& tensor, int stage) {
    const at::Tensor dense = tensor.detach().contiguous();
    sent_.push_back({.tensor = dense, .work = group.start_send(dense, stage)});
    // A neighbour receives the first message before this many are sent, since it then waits for
    // inputs of its own.
    return finish(kSendsOfMicroBatch * group_);
  }

  Status finish(size_t remaining) {
    while (sent_.size() > remaining) {
      MEG_RETURN_IF_ERROR(sent_.front().work->wait());
      sent_.pop_front();
    }
    return {};
  }

  ProcessGroup& stages_;
  ProcessGroup& gradients_;
  size_t group_;
  std::deque<Sent> sent_;
};

}  // namespace meg::parallel
