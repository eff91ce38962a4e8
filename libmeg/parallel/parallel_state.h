#pragma once

#include <c10/core/Device.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/parallel/launch_environment.h"
#include "libmeg/parallel/mesh.h"
#include "libmeg/parallel/observed_group.h"
#include "libmeg/parallel/process_group.h"

namespace meg::parallel {

class Rendezvous;

/// Where a rank computes.
struct DeviceOfRank {
  /// A GPU: no other rank's; groups have NCCL for its tensors. See libtorch::device_of.
  at::Device device = at::kCPU;
  /// Where another rank failed, is gone or does not come in time, what this rank queued on its GPU
  /// waits for it without end. This is then called, once and on a thread of its own, to end the
  /// process. says_why: claim_failure(). Required with a GPU.
  std::function<void(const Status& why, bool says_why)> on_lost = {};
};

/// The groups that this rank belongs to. Groups of one rank send nothing.
/// Mirrors Megatron-LM megatron/core/parallel_state.py: initialize_model_parallel.
class ParallelState {
 public:
  /// One rank alone.
  ParallelState() = default;

  /// Meets all ranks of `environment`, waiting for them at most `timeout`; collective calls then
  /// wait as long at most. Every rank calls it with the same sizes.
  /// Errors: those of Mesh::create; kIoError with LibTorch's words where ranks do not meet in time;
  /// kUnsupported for context and expert parallelism, and for GPUs where libmeg was built without
  /// NCCL; kInvalidArgument where two ranks have the same GPU or only some ranks have one.
  static Result<ParallelState> connect(const LaunchEnvironment& environment,
                                       const Mesh::Sizes& sizes, RankOrder order,
                                       std::chrono::milliseconds timeout,
                                       const DeviceOfRank& device = {});

  const Mesh& mesh() const { return mesh_; }

  at::Device device() const { return device_; }

  /// All ranks, for tensors on CPUs.
  ProcessGroup& world() const { return *world_; }

  const std::shared_ptr<ProcessGroup>& tensor() const { return tensor_; }

  const std::shared_ptr<ProcessGroup>& data() const { return data_; }

  /// The stages in their order.
  const std::shared_ptr<ProcessGroup>& pipeline() const { return pipeline_; }

  /// The stages once more, for the gradients that they send back: between two stages what goes
  /// forward and what goes back would wait for each other in one group, or be taken for each other.
  const std::shared_ptr<ProcessGroup>& pipeline_gradients() const { return pipeline_gradients_; }

  /// All parts of this rank's copy of the model: tensor and pipeline.
  const std::shared_ptr<ProcessGroup>& model() const { return model_; }

  /// The first and the last stage, which both hold a tied embedding; of one rank elsewhere.
  const std::shared_ptr<ProcessGroup>& embedding() const { return embedding_; }

  /// A further group of all ranks, which wait for each other without end: for work that the first
  /// rank is given at any time. Called by all of them.
  Result<std::shared_ptr<ProcessGroup>> patient_world() const;

  /// The same groups, whose communications `observer` is told.
  ParallelState observed(const CommunicationObserver& observer) const;

  /// Called by all ranks of the run, each with what became of its part: the error of the first
  /// rank that has one, on all of them, with that rank's number.
  Status agree(const Status& status) const;

  /// The largest of the ranks' numbers, on all of them.
  Result<int64_t> max(int64_t number) const;

  /// The texts of all ranks in their order, on all of them.
  Result<std::vector<std::string>> of_all_ranks(const std::string& text) const;

  /// The first rank's text, on all of them.
  Result<std::string> of_first_rank(const std::string& text) const;

  /// Whether no other rank has claimed it before: the one that says why the run ends. Others'
  /// errors follow from its end. Safe among threads.
  bool claim_failure() const;

  /// Called by all ranks, which send nothing after it: returns when all are done. Whoever hosts the
  /// store ends last.
  Status end() const;

  bool is_first_stage() const { return mesh_.place(Axis::kPipeline) == 0; }

  bool is_last_stage() const {
    return mesh_.place(Axis::kPipeline) + 1 == mesh_.size(Axis::kPipeline);
  }

 private:
  Status check_devices() const;
  Status check_own_gpu() const;

  Mesh mesh_;
  at::Device device_ = at::kCPU;
  std::shared_ptr<Rendezvous> rendezvous_;  ///< Null where this rank is alone.
  std::shared_ptr<ProcessGroup> world_ = single_rank_group();
  std::shared_ptr<ProcessGroup> tensor_ = single_rank_group();
  std::shared_ptr<ProcessGroup> data_ = single_rank_group();
  std::shared_ptr<ProcessGroup> pipeline_ = single_rank_group();
  std::shared_ptr<ProcessGroup> pipeline_gradients_ = single_rank_group();
  std::shared_ptr<ProcessGroup> model_ = single_rank_group();
  std::shared_ptr<ProcessGroup> embedding_ = single_rank_group();
};

}  // namespace meg::parallel
