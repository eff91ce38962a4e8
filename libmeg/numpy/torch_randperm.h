#pragma once

#include <cstdint>
#include <span>

namespace meg::numpy {

/// The numbers below out.size() in the order that PyTorch's CPU generator gives, bit for bit:
/// torch.randperm(n, generator=torch.Generator().manual_seed(seed)).
/// out: at most 2^32 elements.
void torch_randperm(uint64_t seed, std::span<uint32_t> out);

/// The first n from which torch.randperm draws 64-bit words.
inline constexpr uint64_t kWideRandperm = 0xffffffffU / 20;

}  // namespace meg::numpy
