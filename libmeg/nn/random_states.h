#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "libmeg/base/result.h"

namespace meg::nn {

/// The generators of the random numbers that a training step draws: dropout's masks. There are two,
/// separate from each other and from LibTorch's own, so that nothing else advances them; each can
/// be saved and restored. Copies refer to the same generators.
/// Mirrors Megatron-LM megatron/core/tensor_parallel/random.py: model_parallel_cuda_manual_seed.
class RandomStates {
 public:
  /// The generator to draw from.
  enum class Stream : uint8_t {
    /// Random numbers that are the same on all tensor-parallel ranks: dropout of hidden states that
    /// are replicated. Seeded with seed.
    kDataParallel,
    /// Random numbers of each tensor-parallel rank for its own heads and its own part of sequences.
    /// Seeded with seed + 2718 + the tensor-parallel rank.
    kModelParallel,
  };

  /// All states as bytes, for saving and restoring.
  struct Saved {
    std::vector<std::byte> data_parallel;
    std::vector<std::byte> model_parallel;
  };

  static Result<RandomStates> create(at::Device device, uint64_t seed, int64_t tensor_rank = 0);

  /// Resets the states, as after create() with this seed.
  void set_seed(uint64_t seed, int64_t tensor_rank = 0);

  at::Generator& generator(Stream stream) {
    return stream == Stream::kDataParallel ? data_parallel_ : model_parallel_;
  }

  /// 5056 bytes each on a CPU (torch.get_rng_state()), 16 on a GPU (torch.cuda.get_rng_state()).
  Result<Saved> save() const;

  /// kInvalidArgument if these are not states of this kind of device.
  Status restore(const Saved& saved);

  /// Like save() and restore(), but with LibTorch's tensors and exceptions, for use between its
  /// calls.
  std::vector<at::Tensor> snapshot() const;
  void restore_snapshot(const std::vector<at::Tensor>& states);

 private:
  RandomStates(at::Generator data_parallel, at::Generator model_parallel)
      : data_parallel_(std::move(data_parallel)), model_parallel_(std::move(model_parallel)) {}

  at::Generator data_parallel_;
  at::Generator model_parallel_;
};

/// During its lifetime, LibTorch's default generator of a device continues from the state of
/// `generator`, for operators that accept no generator; afterwards `generator` has the advanced
/// state.
class ForkedDefaultGenerator {
 public:
  ForkedDefaultGenerator(at::Device device, at::Generator& generator);
  ~ForkedDefaultGenerator();
  ForkedDefaultGenerator(const ForkedDefaultGenerator&) = delete;
  ForkedDefaultGenerator& operator=(const ForkedDefaultGenerator&) = delete;

 private:
  at::Generator standard_;
  at::Generator& generator_;
  at::Tensor kept_;
};

}  // namespace meg::nn
