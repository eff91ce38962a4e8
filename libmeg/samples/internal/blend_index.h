#pragma once

#include <cstdint>
#include <span>

#include "libmeg/base/status.h"
#include "libmeg/samples/cache_callbacks.h"

namespace meg::samples {

/// Which dataset, and which of its samples, each sample of a blend is: the dataset that lags most
/// behind its weight comes next. Bit for bit as Megatron's.
/// Mirrors Megatron-LM megatron/core/datasets/helpers.cpp: build_blending_indices.
/// weights: normalized. datasets: below 2^15. The spans have one entry a sample of the blend. Fails
/// only where it is cancelled.
Status build_blend_index(std::span<const double> weights, std::span<int16_t> dataset_index,
                         std::span<int64_t> dataset_sample_index,
                         const CacheCancelled& cancelled = {});

/// The same with exactly sizes[d] samples of dataset d, in proportion; spans have sum(sizes)
/// entries. Mirrors build_exhaustive_blending_indices.
Status build_exhaustive_blend_index(std::span<const int64_t> sizes,
                                    std::span<int16_t> dataset_index,
                                    std::span<int64_t> dataset_sample_index,
                                    const CacheCancelled& cancelled = {});

}  // namespace meg::samples
