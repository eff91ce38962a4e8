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

/// The device on which a rank computes.
struct DeviceOfRank {
  /// If it is a GPU, no other rank may have it, and groups use NCCL for its tensors. See
  /// libtorch::device_of.
  at::Device device = at::kCPU;
  /// If another rank failed, died or does not respond in time, the work that this rank queued on
  /// its GPU waits forever. This function is then called, once and on a separate thread, to end the
  /// process. says_why: claim_failure(). Required with a GPU.
  std::function<void(const Status& why, bool says_why)> on_lost = {};
};

/// The groups that this rank belongs to. Groups of one rank send nothing.
/// Mirrors Megatron-LM megatron/core/parallel_state.py: initialize_model_parallel.
class ParallelState {
 public:
  /// A single rank.
  ParallelState() = default;

  /// Meets all ranks of `environment`, waiting for them at most `timeout`, which is also the
  /// maximum wait of collective calls. Every rank calls it with the same sizes.
  /// sizes: kExpert cuts the data-parallel ranks, and with a smaller expert_tensor_size also the
  /// tensor-parallel ones. expert_tensor_size: ranks that split an expert, 1 or the tensor-parallel
  /// size; 0: the latter.
  /// Errors: those of Mesh::create; kIoError with the missing ranks if they do not meet in time;
  /// kUnsupported for context parallelism, other sizes of experts, and for GPUs if libmeg was built
  /// without NCCL; kInvalidArgument if two ranks have the same GPU or only some ranks have one.
  static Result<ParallelState> connect(const LaunchEnvironment& environment,
                                       const Mesh::Sizes& sizes, RankOrder order,
                                       std::chrono::milliseconds timeout,
                                       const DeviceOfRank& device = {}, int expert_tensor_size = 0);

  /// The ranks as all layers but experts see them: kExpert is 1, kData all copies of a part.
  const Mesh& mesh() const { return mesh_; }

  /// The same ranks as experts see them: kTensor are those that split an expert.
  const Mesh& expert_mesh() const { return expert_mesh_; }

  at::Device device() const { return device_; }

  /// All ranks, for tensors on CPUs.
  ProcessGroup& world() const { return *world_; }

  const std::shared_ptr<ProcessGroup>& tensor() const { return tensor_; }

  const std::shared_ptr<ProcessGroup>& data() const { return data_; }

  /// The ranks that share the experts of a layer: expert-parallel ones, and those that split an
  /// expert next to each other. tensor() unless divides_experts_apart().
  const std::shared_ptr<ProcessGroup>& experts() const { return experts_; }

  /// The ranks that have the same part of the same experts. data() unless divides_experts_apart().
  const std::shared_ptr<ProcessGroup>& expert_data() const { return expert_data_; }

  /// The stages in their order.
  const std::shared_ptr<ProcessGroup>& pipeline() const { return pipeline_; }

  /// The stages again, for the gradients that they send back: in a single group, forward and
  /// backward messages between two stages would wait for each other or be mixed up.
  const std::shared_ptr<ProcessGroup>& pipeline_gradients() const { return pipeline_gradients_; }

  /// All parts of this rank's copy of the model: tensor and pipeline.
  const std::shared_ptr<ProcessGroup>& model() const { return model_; }

  /// The first and the last stage, which both hold a tied embedding; on other stages a group of one
  /// rank.
  const std::shared_ptr<ProcessGroup>& embedding() const { return embedding_; }

  /// An additional group of all ranks, without a timeout, for work that the first rank may receive
  /// at any time. Called by all of them.
  Result<std::shared_ptr<ProcessGroup>> patient_world() const;

  /// The same groups, with `observer` called for their communications.
  ParallelState observed(const CommunicationObserver& observer) const;

  /// Called by all ranks of the run, each with the status of its part. Returns the error of the
  /// first rank that has one, with that rank's number, on all of them.
  Status agree(const Status& status) const;

  /// The maximum of the ranks' numbers, on all of them.
  Result<int64_t> max(int64_t number) const;

  /// The texts of all ranks in their order, on all of them.
  Result<std::vector<std::string>> of_all_ranks(const std::string& text) const;

  /// The first rank's text, on all of them.
  Result<std::string> of_first_rank(const std::string& text) const;

  /// Whether no other rank has claimed the failure before: only the one that has reports why the
  /// run ends, because the errors of others follow from it. Thread-safe.
  bool claim_failure() const;

  /// Called by all ranks, which send nothing afterwards: returns when all are done. The rank that
  /// hosts the store ends last.
  Status end() const;

  /// Whether experts are divided over other ranks than the other layers.
  bool divides_experts_apart() const {
    return expert_mesh_.size(Axis::kExpert) != 1 ||
           expert_mesh_.size(Axis::kTensor) != mesh_.size(Axis::kTensor);
  }

  bool is_first_stage() const { return mesh_.place(Axis::kPipeline) == 0; }

  bool is_last_stage() const {
    return mesh_.place(Axis::kPipeline) + 1 == mesh_.size(Axis::kPipeline);
  }

 private:
  Status join_experts();

  void take_groups_for_experts() {
    experts_ = tensor_;
    expert_data_ = data_;
  }

  Status check_devices() const;
  Status check_own_gpu() const;

  Mesh mesh_, expert_mesh_;
  at::Device device_ = at::kCPU;
  std::shared_ptr<Rendezvous> rendezvous_;  ///< Null if there is only one rank.
  std::shared_ptr<ProcessGroup> world_ = single_rank_group();
  std::shared_ptr<ProcessGroup> tensor_ = single_rank_group();
  std::shared_ptr<ProcessGroup> data_ = single_rank_group();
  std::shared_ptr<ProcessGroup> experts_ = single_rank_group();
  std::shared_ptr<ProcessGroup> expert_data_ = single_rank_group();
  std::shared_ptr<ProcessGroup> pipeline_ = single_rank_group();
  std::shared_ptr<ProcessGroup> pipeline_gradients_ = single_rank_group();
  std::shared_ptr<ProcessGroup> model_ = single_rank_group();
  std::shared_ptr<ProcessGroup> embedding_ = single_rank_group();
};

}  // namespace meg::parallel
