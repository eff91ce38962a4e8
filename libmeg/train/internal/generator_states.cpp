#include "libmeg/train/internal/generator_states.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "libmeg/checkpoint/training/seeded_generators.h"

// A checkpoint has generators for the CPU (torch_rng_state) and for a GPU (cuda_rng_state and
// Megatron's tracker of named CUDA states). A run draws from one kind alone, that of its device;
// the other kind is saved as if just seeded, as it is in a Megatron process that never used it.

namespace meg::train {
namespace {

constexpr std::string_view kModelParallel = "model-parallel-rng";
// Seed and offset of a Philox generator, 8 bytes each. A CPU's Mersenne Twister takes thousands:
// the size identifies the generator.
constexpr size_t kCudaStateBytes = 16;

/// The state of this name in a tracker; nullptr where there is none.
template <class Tracker>
auto* tracked(Tracker& tracker, std::string_view name) {
  const auto found = std::find_if(tracker.begin(), tracker.end(),
                                  [name](const auto& entry) { return entry.first == name; });
  return found == tracker.end() ? nullptr : &found->second;
}

}  // namespace

Result<checkpoint::RngState> save_generators(int64_t seed, model::NameFamily family,
                                             const nn::ModelPart& part,
                                             const nn::RandomStates& generators) {
  checkpoint::RngState state =
      checkpoint::seeded_rng_state(seed, part.tensor_rank, part.pipeline_rank, family);
  MEG_ASSIGN_OR_RETURN(const nn::RandomStates::Saved saved, generators.save());
  if (saved.data_parallel.size() == kCudaStateBytes) {
    state.cuda = saved.data_parallel;
    if (auto* bytes = tracked(state.tracker, kModelParallel)) *bytes = saved.model_parallel;
    return state;
  }
  state.torch = saved.data_parallel;
  // Megatron has no tracker on CPUs, where its modules all draw from one generator. We keep two
  // there as well, so that tensor-parallel ranks drop the same elements in whole tensors on any
  // device.
  state.cpu_tracker = {{std::string(kModelParallel), saved.model_parallel}};
  return state;
}

// Where the file's tracker has no such state, that of this run stays.
Status restore_generators(const checkpoint::RngState& saved, nn::RandomStates& generators) {
  MEG_ASSIGN_OR_RETURN(nn::RandomStates::Saved states, generators.save());
  const bool cuda = states.data_parallel.size() == kCudaStateBytes;
  const auto* model_parallel = tracked(cuda ? saved.tracker : saved.cpu_tracker, kModelParallel);
  states.data_parallel = cuda ? saved.cuda : saved.torch;
  if (model_parallel != nullptr) states.model_parallel = *model_parallel;
  return generators.restore(states);
}

}  // namespace meg::train
