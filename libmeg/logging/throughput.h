#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "libmeg/model/gpt_config.h"

namespace meg::logging {

/// Floating-point operations of one training step of `batch_size` samples, forward and backward,
/// recomputation left out; half of the attention's scores count, as the mask leaves them.
/// config.seq_length and padded_vocab_size must be known.
/// Mirrors Megatron-LM core_v0.12.3 megatron/training/training.py: num_floating_point_operations
/// (up to core_v0.11 all of the scores counted). Routers do not count.
double num_floating_point_operations(const model::GptConfig& config, int64_t batch_size);

/// Dense 16-bit peak of a GPU in TFLOP/s from its data sheet, by the name that CUDA gives it, such
/// as "NVIDIA H200". nullopt where it is not known.
std::optional<double> peak_tflops(std::string_view device_name);

/// The throughput of steps of one batch size.
struct Throughput {
  double tokens_per_second = 0;    ///< Of the whole run.
  double tflops_per_device = 0;    ///< TFLOP/s.
  std::optional<double> mfu = {};  ///< Model FLOP/s of the peak, 0 to 1; none without a peak.
};

/// seconds_per_iteration: > 0. world_size: devices that shared the step.
/// peak: see peak_tflops; only for runs in 16 bits.
Throughput throughput(const model::GptConfig& config, int64_t batch_size,
                      double seconds_per_iteration, int64_t world_size,
                      std::optional<double> peak = std::nullopt);

/// " throughput: 171234.5 tokens/s | 391.2 TFLOP/s/GPU | MFU: 39.5 % |"; libmeg's own line, so that
/// Megatron's stays as it is.
std::string throughput_line(const Throughput& throughput);

}  // namespace meg::logging
