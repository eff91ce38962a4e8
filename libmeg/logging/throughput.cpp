#include "libmeg/logging/throughput.h"

#include <fmt/format.h>

#include <array>
#include <iterator>

namespace meg::logging {
namespace {

struct Peak {
  std::string_view name;  ///< Part of the device's name; the first that fits counts.
  double tflops;
};

// Data sheets, without sparsity. Boards of lower power come before the module of the same name.
constexpr std::array kPeaks = {
    Peak{"H200 NVL", 835.5}, Peak{"H100 PCIe", 756.0}, Peak{"H100 NVL", 835.5},
    Peak{"GB200", 2500.0},   Peak{"GH200", 989.5},     Peak{"B200", 2250.0},
    Peak{"H200", 989.5},     Peak{"H100", 989.5},      Peak{"H800", 989.5},
    Peak{"A100", 312.0},     Peak{"A800", 312.0},      Peak{"L40S", 362.0},
};

double real(int64_t value) { return static_cast<double>(value); }

}  // namespace

double num_floating_point_operations(const model::GptConfig& config, int64_t batch_size) {
  const double hidden = real(config.hidden_size);
  const double heads = real(config.num_attention_heads);
  const double gated = config.swiglu ? 1.5 : 1.0;
  const double query_ratio = real(config.kv_channels) * heads / hidden;
  // 3: forward and the two of backward; 2: each matrix has a counterpart; 2: multiply and add.
  constexpr double kExpansion = 3 * 2 * 2;
  // Of experts, those that compute a token.
  const double active = real(config.moe_ffn_hidden_size) * real(config.moe_router_topk) +
                        real(config.moe_shared_expert_intermediate_size.value_or(0));
  const int64_t with_experts = config.num_moe_layers();
  const double ffn = real(config.num_layers - with_experts) * real(config.ffn_hidden_size) +
                     real(with_experts) * active;
  const double mlp = kExpansion * hidden * ffn * gated;
  const double attention =
      kExpansion * real(config.num_layers) * hidden * hidden *
      (1 + real(config.num_query_groups) / heads + real(config.seq_length) / hidden / 2) *
      query_ratio;
  const double logits = 3 * 2 * hidden * real(config.padded_vocab_size);
  return real(batch_size) * real(config.seq_length) * (mlp + attention + logits);
}

std::optional<double> peak_tflops(std::string_view device_name) {
  // A part of a GPU that MIG cuts off has a part of its peak.
  if (device_name.find("MIG") != std::string_view::npos) return std::nullopt;
  for (const Peak& peak : kPeaks) {
    if (device_name.find(peak.name) != std::string_view::npos) return peak.tflops;
  }
  return std::nullopt;
}

Throughput throughput(const model::GptConfig& config, int64_t batch_size,
                      double seconds_per_iteration, int64_t world_size,
                      std::optional<double> peak) {
  Throughput found;
  found.tokens_per_second = real(batch_size) * real(config.seq_length) / seconds_per_iteration;
  found.tflops_per_device = num_floating_point_operations(config, batch_size) /
                            (seconds_per_iteration * 1e12 * real(world_size));
  if (peak) found.mfu = found.tflops_per_device / *peak;
  return found;
}

std::string throughput_line(const Throughput& throughput) {
  const double tflops = throughput.tflops_per_device;
  // A small model on a CPU is far below what one digit after the point can show.
  const std::string rate =
      tflops < 0.05 ? fmt::format("{:.2g}", tflops) : fmt::format("{:.1f}", tflops);
  std::string line = fmt::format(" throughput: {:.1f} tokens/s | {} TFLOP/s/GPU |",
                                 throughput.tokens_per_second, rate);
  if (throughput.mfu) {
    fmt::format_to(std::back_inserter(line), " MFU: {:.1f} % |", *throughput.mfu * 100);
  }
  return line;
}

}  // namespace meg::logging
