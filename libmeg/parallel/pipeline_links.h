#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <deque>

#include "libmeg/parallel/process_group.h"

namespace meg::parallel {

/// The stages before and behind this one in a pipeline, whose group outlives it. Sends continue
/// while the stage computes: two neighbours that send to each other would wait for each other else.
/// Mirrors Megatron-LM megatron/core/pipeline_parallel/p2p_communication.py.
class PipelineLinks {
 public:
  explicit PipelineLinks(ProcessGroup& stages) : stages_(stages) {}

  bool is_first() const { return stages_.rank() == 0; }

  bool is_last() const { return stages_.rank() + 1 == stages_.size(); }

  Status send_forward(const at::Tensor& output) { return send(output, stages_.rank() + 1); }

  Status send_backward(const at::Tensor& gradient) { return send(gradient, stages_.rank() - 1); }

  /// Into a dense tensor.
  Status receive_forward(const at::Tensor& input) {
    return stages_.receive(input, stages_.rank() - 1);
  }

  Status receive_backward(const at::Tensor& gradient) {
    return stages_.receive(gradient, stages_.rank() + 1);
  }

  /// Waits for what is sent.
  Status finish() { return finish(0); }

 private:
  struct Sent {
    at::Tensor tensor;  ///< Kept until it is sent.
    PendingWork work;
  };

  Status send(const at::Tensor& tensor, int stage) {
    const at::Tensor dense = tensor.detach().contiguous();
    sent_.push_back({.tensor = dense, .work = stages_.start_send(dense, stage)});
    // Before this many are sent a neighbour has received the first: it has its own inputs to wait
    // for behind that.
    return finish(2 * static_cast<size_t>(stages_.size()));
  }

  Status finish(size_t remaining) {
    while (sent_.size() > remaining) {
      MEG_RETURN_IF_ERROR(sent_.front().work->wait());
      sent_.pop_front();
    }
    return {};
  }

  ProcessGroup& stages_;
  std::deque<Sent> sent_;
};

}  // namespace meg::parallel
