#pragma once

#include "libmeg/checkpoint/convert/internal/target_file.h"

namespace meg::checkpoint {

/// The distance between a target rank and the source rank whose generators it takes, which is the
/// first one of its stage.
struct RngShift {
  RankPlace place;
  int64_t stages = 0;
};

/// Prepares `target` so that carrying over the source file's generators from now on moves the seeds
/// of its CUDA generators by Megatron's rule: every stage adds 100 to all of them, every
/// tensor-parallel rank 1 to those of model-parallel-rng; every rank over which experts are divided
/// adds 1, and every expert-parallel rank 100, to those of expert-parallel-rng. Offsets and states
/// of unknown forms stay as they are. Reads the few bytes concerned; check_crc: compares the
/// archive's CRC-32 with them. Mirrors Megatron-LM megatron/core/tensor_parallel/random.py:
/// model_parallel_cuda_manual_seed.
Status shift_rng_seeds(const MegatronCheckpoint& checkpoint, int source_file, RngShift shift,
                       bool check_crc, TargetFile* target);

}  // namespace meg::checkpoint
