#include "libmeg/parallel/parallel_state.h"

#include <initializer_list>
#include <vector>

#include "libmeg/parallel/internal/rendezvous.h"

namespace meg::parallel {
namespace {

constexpr std::initializer_list<Axis> kAll = {Axis::kTensor, Axis::kContext, Axis::kExpert,
                                              Axis::kData, Axis::kPipeline};

/// Puts the group of these ranks into `group`, which stays alone where there are no others.
Status join(const Rendezvous& rendezvous, const char* name, const std::vector<int>& ranks,
            std::shared_ptr<ProcessGroup>& group) {
  if (ranks.size() < 2) return {};
  MEG_ASSIGN_OR_RETURN(group, rendezvous.group(name, ranks));
  return {};
}

Status check_supported(const Mesh& mesh) {
  for (const auto& [axis, flag] : {std::pair(Axis::kContext, "--context-parallel-size"),
                                   std::pair(Axis::kExpert, "--expert-model-parallel-size")}) {
    if (mesh.size(axis) == 1) continue;
    return make_error(StatusCode::kUnsupported, "{}: expected 1, found {}: not supported yet", flag,
                      mesh.size(axis));
  }
  return {};
}

}  // namespace

Result<ParallelState> ParallelState::connect(const LaunchEnvironment& environment,
                                             const Mesh::Sizes& sizes, RankOrder order,
                                             std::chrono::milliseconds timeout) {
  ParallelState state;
  MEG_ASSIGN_OR_RETURN(state.mesh_,
                       Mesh::create(sizes, environment.rank, environment.world_size, order));
  MEG_RETURN_IF_ERROR(check_supported(state.mesh_));
  if (environment.world_size == 1) return state;
  MEG_ASSIGN_OR_RETURN(const Rendezvous rendezvous, Rendezvous::meet(environment, timeout));
  const Mesh& mesh = state.mesh_;
  const std::vector<int> stages = mesh.group({Axis::kPipeline});
  MEG_RETURN_IF_ERROR(join(rendezvous, "world", mesh.group(kAll), state.world_));
  MEG_RETURN_IF_ERROR(join(rendezvous, "tensor", mesh.group({Axis::kTensor}), state.tensor_));
  MEG_RETURN_IF_ERROR(join(rendezvous, "data", mesh.group({Axis::kData}), state.data_));
  MEG_RETURN_IF_ERROR(join(rendezvous, "pipeline", stages, state.pipeline_));
  MEG_RETURN_IF_ERROR(
      join(rendezvous, "model", mesh.group({Axis::kTensor, Axis::kPipeline}), state.model_));
  if (stages.size() > 1 && (state.is_first_stage() || state.is_last_stage())) {
    MEG_RETURN_IF_ERROR(
        join(rendezvous, "embedding", {stages.front(), stages.back()}, state.embedding_));
  }
  return state;
}

}  // namespace meg::parallel
