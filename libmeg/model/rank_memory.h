#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/model/gpt_config.h"
#include "libmeg/model/theoretical_memory.h"

namespace meg::model {

/// Elements that a parameter takes in an array of several, with each one aligned for vector loads.
int64_t padded_elements(int64_t elements);

/// Elements of each of `parts` equal parts of such an array, whose parameters take `padded`
/// elements.
int64_t part_elements(int64_t padded, int64_t parts);

/// The formats in which a run keeps its numbers.
struct NumberFormats {
  bool sixteen_bit = false;       ///< Parameters in 16 bits, with fp32 masters; else in fp32.
  bool widens_gradients = false;  ///< 16-bit parameters' gradients in fp32.
};

/// Memory of one rank of a pipeline stage, which is the same for all its tensor- and data-parallel
/// ranks. Bytes of tensors, without the overhead of LibTorch's allocator and the padding of
/// additional buckets (a few KB), which --overlap-grad-reduce and experts have.
struct RankMemory {
  int64_t parameters = 0;
  double parameter_bytes = 0;
  double gradient_bytes =
      0;  ///< Sums over micro-batches or ranks; LibTorch frees the gradients of a single one.
  double optimizer_bytes = 0;  ///< Masters and moments.
  /// The maximum of the transformer layers' activations: layer_activation_bytes of each layer, for
  /// each micro-batch in flight.
  double activation_bytes = 0;
  int64_t layers_in_flight = 0;  ///< Layers times micro-batches.

  double total_bytes() const {
    return parameter_bytes + gradient_bytes + optimizer_bytes + activation_bytes;
  }
};

/// Computes the memory for each pipeline stage. memory: computed with the same arguments.
/// Errors: those of theoretical_memory and model_parameters.
Result<std::vector<RankMemory>> rank_memory(const GptConfig& config,
                                            const TheoreticalMemoryOptions& options,
                                            const NumberFormats& formats,
                                            const TheoreticalMemory& memory);

/// A line for each stage.
std::vector<std::string> rank_memory_lines(const std::vector<RankMemory>& stages);

}  // namespace meg::model
