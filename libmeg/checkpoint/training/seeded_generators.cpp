#include "libmeg/checkpoint/training/seeded_generators.h"

#include <algorithm>

#include "libmeg/base/bytes.h"

// A file of Megatron's holds the states of five generators, of which this trainer uses one or two.
// The others are written as Megatron's own seeding would have left them at the start of a run, so
// that Megatron can continue from the file.

namespace meg::checkpoint {
namespace {

// The constants of Megatron's megatron/training/initialize.py: _set_random_seed (100 for each
// pipeline stage) and megatron/core/tensor_parallel/random.py: model_parallel_cuda_manual_seed.
constexpr int64_t kSeedOfStage = 100;
constexpr int64_t kModelParallelOffset = 2718;
constexpr int64_t kExpertParallelOffset = 1024;

using Words = std::array<uint32_t, MersenneState::kWords>;

uint32_t mixed(uint32_t word) { return word ^ (word >> 30); }

/// The generator's own seeding (init_genrand of Matsumoto and Nishimura).
Words seeded_words(uint32_t seed) {
  Words words;
  words[0] = seed;
  for (uint32_t i = 1; i < words.size(); ++i) words[i] = 1812433253U * mixed(words[i - 1]) + i;
  return words;
}

// torch's CPU generator in memory, at::CPUGeneratorImplStateLegacy and what follows it: seed, left,
// seeded, next, 64 bits for each word, then the parts of normal numbers, which are not there yet.
// left == 1 makes the next draw produce new words.
constexpr size_t kTorchBytes = 5056;
constexpr size_t kTorchLeft = 8, kTorchSeeded = 12, kTorchWords = 24;

}  // namespace

MersenneState seeded_python_random(uint32_t seed) {
  // Python's init_by_array. The seed is an array of one word, so the key's index is always 0 and
  // adds nothing.
  Words words = seeded_words(19650218U);
  const size_t count = words.size();
  size_t i = 1;
  const auto advance = [&] {
    if (++i < count) return;
    words[0] = words[count - 1];
    i = 1;
  };
  for (size_t k = 0; k < count; ++k) {
    words[i] = (words[i] ^ (mixed(words[i - 1]) * 1664525U)) + seed;
    advance();
  }
  for (size_t k = 1; k < count; ++k) {
    words[i] = (words[i] ^ (mixed(words[i - 1]) * 1566083941U)) - static_cast<uint32_t>(i);
    advance();
  }
  // MT19937 as its authors seed it by arrays: it makes sure that not all words are 0.
  words[0] = 0x80000000U;
  MersenneState state;
  state.words = words;
  return state;
}

MersenneState seeded_numpy_random(uint32_t seed) {
  MersenneState state;
  state.words = seeded_words(seed);
  return state;
}

std::vector<std::byte> seeded_torch_state(int64_t seed) {
  std::vector<std::byte> state(kTorchBytes);
  store_le(state.data(), static_cast<uint64_t>(seed));
  store_le(state.data() + kTorchLeft, uint32_t{1});
  store_le(state.data() + kTorchSeeded, uint32_t{1});
  // torch::mt19937 uses only the lower 32 bits of the seed; the whole seed is stored separately for
  // initial_seed().
  const Words words = seeded_words(static_cast<uint32_t>(seed));
  for (size_t i = 0; i < words.size(); ++i) {
    store_le(state.data() + kTorchWords + i * sizeof(uint64_t), uint64_t{words[i]});
  }
  return state;
}

std::vector<std::byte> seeded_cuda_state(int64_t seed) {
  std::vector<std::byte> state(2 * sizeof(uint64_t));
  store_le(state.data(), static_cast<uint64_t>(seed));
  return state;
}

RngState seeded_rng_state(int64_t seed, int64_t tensor_rank, int64_t pipeline_rank,
                          model::NameFamily family) {
  seed += kSeedOfStage * pipeline_rank;
  RngState state;
  state.python_random = seeded_python_random(static_cast<uint32_t>(seed));
  state.numpy_random = seeded_numpy_random(static_cast<uint32_t>(seed));
  state.torch = seeded_torch_state(seed);
  state.cuda = seeded_cuda_state(seed);
  const auto track = [&](const char* name, int64_t tracked) {
    state.tracker.emplace_back(name, seeded_cuda_state(tracked));
  };
  const bool is_core = family != model::NameFamily::kLegacy;
  if (is_core) track("data-parallel-rng", seed);
  track("model-parallel-rng", seed + kModelParallelOffset + tensor_rank);
  if (is_core) track("expert-parallel-rng", seed + kExpertParallelOffset + tensor_rank);
  return state;
}

}  // namespace meg::checkpoint
