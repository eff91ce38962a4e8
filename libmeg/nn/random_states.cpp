#include "libmeg/nn/random_states.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <cstring>
#include <mutex>
#include <utility>

#include "libmeg/libtorch/torch_guard.h"

namespace meg::nn {
namespace {

/// What Megatron adds to the seed of the model-parallel state.
constexpr uint64_t kModelParallelOffset = 2718;

at::Generator new_generator(at::Device device) {
  if (device.is_cpu() || device.is_meta()) return at::detail::createCPUGenerator();
  return at::globalContext()
      .getAcceleratorHooksInterface(device.type())
      .getNewGenerator(device.index());
}

at::Tensor state_of(const at::Generator& generator) {
  at::Generator shared = generator;
  const std::lock_guard<std::mutex> lock(shared.mutex());
  return shared.get_state();
}

void set_state(at::Generator& generator, const at::Tensor& state) {
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_state(state);
}

std::vector<std::byte> bytes_of(const at::Tensor& state) {
  std::vector<std::byte> bytes(static_cast<size_t>(state.numel()));
  std::memcpy(bytes.data(), state.const_data_ptr(), bytes.size());
  return bytes;
}

/// The generator takes these bytes, which must be as many as its state has.
Status set_bytes(at::Generator& generator, const std::vector<std::byte>& bytes,
                 std::string_view name) {
  at::Tensor state = state_of(generator);
  if (bytes.size() != static_cast<size_t>(state.numel())) {
    return make_error(StatusCode::kInvalidArgument,
                      "random state {}: expected {} bytes for a generator on {}, found {}", name,
                      state.numel(), c10::DeviceTypeName(generator.device().type(), true),
                      bytes.size());
  }
  std::memcpy(state.mutable_data_ptr(), bytes.data(), bytes.size());
  set_state(generator, state);
  return Status();
}

}  // namespace

Result<RandomStates> RandomStates::create(at::Device device, uint64_t seed, int64_t tensor_rank) {
  std::optional<RandomStates> states;
  MEG_RETURN_IF_ERROR(libtorch::torch_guard([&] {
    states = RandomStates(new_generator(device), new_generator(device));
    states->set_seed(seed, tensor_rank);
    return Status();
  }));
  return std::move(*states);
}

void RandomStates::set_seed(uint64_t seed, int64_t tensor_rank) {
  data_parallel_.set_current_seed(seed);
  model_parallel_.set_current_seed(seed + kModelParallelOffset +
                                   static_cast<uint64_t>(tensor_rank));
}

Result<RandomStates::Saved> RandomStates::save() const {
  Saved saved;
  MEG_RETURN_IF_ERROR(libtorch::torch_guard([&] {
    saved = {bytes_of(state_of(data_parallel_)), bytes_of(state_of(model_parallel_))};
    return Status();
  }));
  return saved;
}

Status RandomStates::restore(const Saved& saved) {
  return libtorch::torch_guard([&] {
    MEG_RETURN_IF_ERROR(set_bytes(data_parallel_, saved.data_parallel, "data parallel"));
    return set_bytes(model_parallel_, saved.model_parallel, "model parallel");
  });
}

std::vector<at::Tensor> RandomStates::snapshot() const {
  return {state_of(data_parallel_), state_of(model_parallel_)};
}

void RandomStates::restore_snapshot(const std::vector<at::Tensor>& states) {
  set_state(data_parallel_, states[0]);
  set_state(model_parallel_, states[1]);
}

/// Swaps states instead of generators, since the default one cannot be exchanged. Both hold their
/// places while the fork lives: what is drawn counts to `generator`, and the default one continues
/// as if nothing had been drawn.
ForkedDefaultGenerator::ForkedDefaultGenerator(at::Device device, at::Generator& generator)
    : standard_(at::globalContext().defaultGenerator(device)), generator_(generator) {
  kept_ = state_of(standard_);
  set_state(standard_, state_of(generator_));
}

ForkedDefaultGenerator::~ForkedDefaultGenerator() {
  set_state(generator_, state_of(standard_));
  set_state(standard_, kept_);
}

}  // namespace meg::nn
