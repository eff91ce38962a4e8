#include "libmeg/parallel/parallel_state.h"

#include <ATen/ATen.h>

#include <cstring>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "libmeg/libtorch/device_figures.h"
#include "libmeg/libtorch/torch_guard.h"
#include "libmeg/parallel/internal/rendezvous.h"
#include "libmeg/parallel/internal/without_end.h"

// Makes the groups of a rank. All ranks make theirs in the same order with the same names: the
// store's keys are formed of them, and a rank that skipped one would wait for others under another
// name.

namespace meg::parallel {
namespace {

constexpr std::initializer_list<Axis> kAll = {Axis::kTensor, Axis::kContext, Axis::kExpert,
                                              Axis::kData, Axis::kPipeline};

/// Puts the group of these ranks into `group`, which stays alone where there are no others.
Status join(Rendezvous& rendezvous, const char* name, const std::vector<int>& ranks,
            std::shared_ptr<ProcessGroup>& group) {
  if (ranks.size() < 2) return {};
  MEG_ASSIGN_OR_RETURN(group, rendezvous.group(name, ranks));
  return {};
}

at::Tensor number_tensor(int64_t number) { return at::full({1}, number, at::kLong); }

/// One rank's text on all of them.
Result<std::string> told(ProcessGroup& group, int source, const std::string& text) {
  const at::Tensor size = number_tensor(static_cast<int64_t>(text.size()));
  MEG_RETURN_IF_ERROR(group.broadcast(size, source));
  const at::Tensor letters = at::empty(size.item<int64_t>(), at::kByte);
  if (group.rank() == source) std::memcpy(letters.mutable_data_ptr(), text.data(), text.size());
  MEG_RETURN_IF_ERROR(group.broadcast(letters, source));
  return std::string(static_cast<const char*>(letters.const_data_ptr()), letters.nbytes());
}

struct Meshes {
  Mesh all, experts;
};

int& size_in(Mesh::Sizes& sizes, Axis axis) { return sizes[static_cast<size_t>(axis)]; }

/// Experts have a numbering of their own, as in Megatron: their tensor-parallel and expert-parallel
/// ranks come first, whatever ranks these are to the other layers.
Result<Meshes> make_meshes(const LaunchEnvironment& environment, Mesh::Sizes sizes, RankOrder order,
                           int expert_tensor_size) {
  Mesh::Sizes of_experts = sizes;
  const int tensor = size_in(sizes, Axis::kTensor);
  if (expert_tensor_size != 0 && tensor % expert_tensor_size != 0) {
    return make_error(
        StatusCode::kUnsupported,
        "`expert_tensor_parallel_size`: expected a divisor of {}, the tensor parallel "
        "size, found {}: not supported yet",
        tensor, expert_tensor_size);
  }
  if (expert_tensor_size != 0) size_in(of_experts, Axis::kTensor) = expert_tensor_size;
  size_in(sizes, Axis::kExpert) = 1;
  Meshes meshes;
  MEG_ASSIGN_OR_RETURN(meshes.all,
                       Mesh::create(sizes, environment.rank, environment.world_size, order));
  if (meshes.all.size(Axis::kContext) != 1) {
    return make_error(StatusCode::kUnsupported,
                      "`context_parallel_size`: expected 1, found {}: not supported yet",
                      meshes.all.size(Axis::kContext));
  }
  const int split = size_in(of_experts, Axis::kTensor);
  const int most = meshes.all.size(Axis::kData) * tensor / split;
  if (const int found = size_in(of_experts, Axis::kExpert); found < 1 || most % found != 0) {
    return make_error(
        StatusCode::kInvalidArgument,
        "`expert_model_parallel_size`: expected a divisor of {}, the data parallel "
        "size{}, found {}",
        most, split == tensor ? "" : " x the tensor parallel size / `expert_tensor_parallel_size`",
        found);
  }
  // Counted again, as these are other copies.
  size_in(of_experts, Axis::kData) = 0;
  MEG_ASSIGN_OR_RETURN(meshes.experts,
                       Mesh::create(of_experts, environment.rank, environment.world_size, order));
  if (meshes.experts.group({Axis::kPipeline}) == meshes.all.group({Axis::kPipeline})) return meshes;
  return make_error(StatusCode::kUnsupported,
                    "`use_tp_pp_dp_mapping`: expected `expert_model_parallel_size` x "
                    "`expert_tensor_parallel_size` {}, the tensor parallel size, found {} x {}",
                    tensor, meshes.experts.size(Axis::kExpert), meshes.experts.size(Axis::kTensor));
}

}  // namespace

Result<ParallelState> ParallelState::connect(const LaunchEnvironment& environment,
                                             const Mesh::Sizes& sizes, RankOrder order,
                                             std::chrono::milliseconds timeout,
                                             const DeviceOfRank& device, int expert_tensor_size) {
  ParallelState state;
  MEG_ASSIGN_OR_RETURN(const Meshes meshes,
                       make_meshes(environment, sizes, order, expert_tensor_size));
  state.mesh_ = meshes.all;
  state.expert_mesh_ = meshes.experts;
  state.device_ = device.device;
  if (environment.world_size == 1) return state;
  MEG_ASSIGN_OR_RETURN(state.rendezvous_, Rendezvous::meet(environment, timeout));
  Rendezvous& rendezvous = *state.rendezvous_;
  const Mesh& mesh = state.mesh_;
  const std::vector<int> stages = mesh.group({Axis::kPipeline});
  // First, because the checks that follow need it: errors from here on are agreed on by all ranks.
  MEG_RETURN_IF_ERROR(join(rendezvous, "world", mesh.group(kAll), state.world_));
  MEG_RETURN_IF_ERROR(state.check_devices());
  if (device.device.is_cuda()) MEG_RETURN_IF_ERROR(rendezvous.use_nccl(device.on_lost));
  MEG_RETURN_IF_ERROR(join(rendezvous, "tensor", mesh.group({Axis::kTensor}), state.tensor_));
  MEG_RETURN_IF_ERROR(join(rendezvous, "data", mesh.group({Axis::kData}), state.data_));
  MEG_RETURN_IF_ERROR(state.join_experts());
  MEG_RETURN_IF_ERROR(join(rendezvous, "pipeline", stages, state.pipeline_));
  // With two stages of several chunks, outputs and gradients go from the same rank to the same
  // rank. In one group they would have to be received in the order in which they were sent; a
  // second group of the same ranks keeps them apart.
  MEG_RETURN_IF_ERROR(join(rendezvous, "pipeline gradients", stages, state.pipeline_gradients_));
  MEG_RETURN_IF_ERROR(
      join(rendezvous, "model", mesh.group({Axis::kTensor, Axis::kPipeline}), state.model_));
  // Tied embeddings: Megatron's _EMBEDDING_GLOBAL_RANKS, the first and the last stage. Others have
  // no such group.
  if (stages.size() > 1 && (state.is_first_stage() || state.is_last_stage())) {
    MEG_RETURN_IF_ERROR(
        join(rendezvous, "embedding", {stages.front(), stages.back()}, state.embedding_));
  }
  // A rank that ended before others are connected to it would make them fail.
  MEG_RETURN_IF_ERROR(state.world_->barrier());
  return state;
}

Status ParallelState::join_experts() {
  if (!divides_experts_apart()) {
    take_groups_for_experts();
    return {};
  }
  MEG_RETURN_IF_ERROR(
      join(*rendezvous_, "experts", expert_mesh_.group({Axis::kTensor, Axis::kExpert}), experts_));
  return join(*rendezvous_, "expert data", expert_mesh_.group({Axis::kData}), expert_data_);
}

Result<std::shared_ptr<ProcessGroup>> ParallelState::patient_world() const {
  if (world_->size() == 1) return world_;
  // Ranks may come here at very different times. After this barrier all of them are here, so that
  // the group is made within its time-out; its own calls then have none.
  MEG_RETURN_IF_ERROR(world_->barrier());
  return rendezvous_->group("patient", mesh_.group(kAll), kWithoutEnd);
}

/// Called by all ranks.
/// Where no rank has a GPU there is nothing to compare; where one has, all must.
Status ParallelState::check_devices() const {
  MEG_ASSIGN_OR_RETURN(const int64_t any_has_gpu, max(device_.is_cuda() ? 1 : 0));
  return agree(any_has_gpu == 0 ? Status() : check_own_gpu());
}

Status ParallelState::check_own_gpu() const {
  if (!device_.is_cuda()) {
    return Status(StatusCode::kInvalidArgument,
                  "device: expected a GPU, as other ranks have one, found the CPU");
  }
  // Claim it by the GPU's UUID, so that two containers or CUDA_VISIBLE_DEVICES of two ranks cannot
  // hide one GPU behind two numbers.
  const std::string gpu = libtorch::device_identity(device_);
  bool is_own = false;
  MEG_RETURN_IF_ERROR(libtorch::torch_guard([&] {
    is_own = rendezvous_->claim("gpu/" + gpu);
    return Status();
  }));
  if (is_own) return {};
  return make_error(StatusCode::kInvalidArgument,
                    "device: expected a GPU for each rank, found {} (GPU-{}), which another rank "
                    "uses; start no more ranks on a machine than it has GPUs",
                    device_.str(), gpu);
}

Status ParallelState::end() const {
  return rendezvous_ == nullptr ? Status() : rendezvous_->end(*world_);
}

Status ParallelState::agree(const Status& status) const {
  if (world_->size() == 1) return status;
  return libtorch::torch_guard([&]() -> Status {
    // The smallest number of a rank with an error; the size of the world where there is none.
    const at::Tensor first = number_tensor(status.ok() ? world_->size() : world_->rank());
    MEG_RETURN_IF_ERROR(world_->all_reduce(first, Reduction::kMin));
    const int source = first.item<int>();
    if (source == world_->size()) return {};
    // Only ranks that fail pay for the message: without an error the agreement is one all-reduce of
    // 8 bytes.
    const at::Tensor code = number_tensor(static_cast<int64_t>(status.code()));
    MEG_RETURN_IF_ERROR(world_->broadcast(code, source));
    MEG_ASSIGN_OR_RETURN(const std::string message,
                         told(*world_, source, std::string(status.message())));
    return make_error(static_cast<StatusCode>(code.item<int64_t>()), "rank {}: {}", source,
                      message);
  });
}

Result<int64_t> ParallelState::max(int64_t number) const {
  if (world_->size() == 1) return number;
  int64_t largest = 0;
  const Status done = libtorch::torch_guard([&]() -> Status {
    const at::Tensor all = number_tensor(number);
    MEG_RETURN_IF_ERROR(world_->all_reduce(all, Reduction::kMax));
    largest = all.item<int64_t>();
    return {};
  });
  MEG_RETURN_IF_ERROR(done);
  return largest;
}

Result<std::string> ParallelState::of_first_rank(const std::string& text) const {
  if (world_->size() == 1) return text;
  std::string first;
  const Status done = libtorch::torch_guard([&]() -> Status {
    MEG_ASSIGN_OR_RETURN(first, told(*world_, 0, text));
    return {};
  });
  MEG_RETURN_IF_ERROR(done);
  return first;
}

Result<std::vector<std::string>> ParallelState::of_all_ranks(const std::string& text) const {
  std::vector<std::string> texts;
  const Status done = libtorch::torch_guard([&]() -> Status {
    // One rank after another: texts differ in length, and this is called once a run.
    for (int rank = 0; rank < world_->size(); ++rank) {
      MEG_ASSIGN_OR_RETURN(texts.emplace_back(), told(*world_, rank, text));
    }
    return {};
  });
  MEG_RETURN_IF_ERROR(done);
  return texts;
}

ParallelState ParallelState::observed(const CommunicationObserver& observer) const {
  ParallelState state = *this;
  for (const auto& [name, group] : {std::pair("world", &state.world_),
                                    {"tensor", &state.tensor_},
                                    {"data", &state.data_},
                                    {"pipeline", &state.pipeline_},
                                    {"pipeline gradients", &state.pipeline_gradients_},
                                    {"model", &state.model_},
                                    {"embedding", &state.embedding_},
                                    {"experts", &state.experts_},
                                    {"expert data", &state.expert_data_}}) {
    // Groups of one rank send nothing and are shared by all: there is nothing to observe.
    if ((*group)->size() > 1) *group = observed_group(*group, name, observer);
  }
  if (!divides_experts_apart()) state.take_groups_for_experts();
  return state;
}

bool ParallelState::claim_failure() const {
  return rendezvous_ == nullptr || rendezvous_->claim_failure();
}

}  // namespace meg::parallel
