#pragma once

#include <cstdint>
#include <span>

namespace meg::samples {

/// Which dataset, and which of its samples, each sample of a blend is: the dataset that lags most
/// behind its weight comes next. Bit for bit as Megatron's.
/// Mirrors Megatron-LM megatron/core/datasets/helpers.cpp: build_blending_indices.
/// weights: normalized. datasets: below 2^15. The spans have one entry a sample of the blend.
void build_blend_index(std::span<const double> weights, std::span<int16_t> dataset_index,
                       std::span<int64_t> dataset_sample_index);

/// The same with exactly sizes[d] samples of dataset d, in proportion; spans have sum(sizes)
/// entries. Mirrors build_exhaustive_blending_indices.
void build_exhaustive_blend_index(std::span<const int64_t> sizes, std::span<int16_t> dataset_index,
                                  std::span<int64_t> dataset_sample_index);

}  // namespace meg::samples
