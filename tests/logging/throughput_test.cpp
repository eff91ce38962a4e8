#include "libmeg/logging/throughput.h"

#include <gtest/gtest.h>

#include "tests/model/mixtures.h"

namespace meg::logging {
namespace {

model::GptConfig gpt_345m() {
  model::GptConfig config;
  config.num_layers = 24;
  config.hidden_size = 1024;
  config.ffn_hidden_size = 4096;
  config.num_attention_heads = 16;
  config.num_query_groups = 16;
  config.kv_channels = 64;
  config.seq_length = 1024;
  config.padded_vocab_size = 50304;
  return config;
}

TEST(Throughput, OperationsAreMegatrons) {
  // num_floating_point_operations of core_v0.12.3 with the same arguments.
  EXPECT_EQ(num_floating_point_operations(gpt_345m(), 8), 18612240777216.0);
  model::GptConfig llama = gpt_345m();
  llama.swiglu = true;
  llama.gated_linear_unit = true;
  llama.ffn_hidden_size = 2752;
  llama.num_query_groups = 4;
  llama.kv_channels = 128;
  EXPECT_EQ(num_floating_point_operations(llama, 8), 21163451351040.0);
}

TEST(Throughput, CountsTheExpertsOfAToken) {
  // num_floating_point_operations of core_v0.16.1 with the same arguments.
  EXPECT_EQ(num_floating_point_operations(model::test::mixtral_8x7b(), 16), 5223642304610304.0);
  EXPECT_EQ(num_floating_point_operations(model::test::many_small_experts(), 16),
            2415455247532032.0);
}

TEST(Throughput, SpeedFollowsFromTheTimeOfAStep) {
  const Throughput found = throughput(gpt_345m(), 8, 0.5, 2, 989.5);
  EXPECT_EQ(found.tokens_per_second, 16384.0);
  EXPECT_DOUBLE_EQ(found.tflops_per_device, 18.612240777216);
  EXPECT_DOUBLE_EQ(*found.mfu, 18.612240777216 / 989.5);
  EXPECT_EQ(throughput_line(found),
            " throughput: 16384.0 tokens/s | 18.6 TFLOP/s/GPU | MFU: 1.9 % |");
  EXPECT_EQ(throughput_line(throughput(gpt_345m(), 8, 0.5, 2)),
            " throughput: 16384.0 tokens/s | 18.6 TFLOP/s/GPU |");
  EXPECT_EQ(throughput_line({.tokens_per_second = 900, .tflops_per_device = 0.003124}),
            " throughput: 900.0 tokens/s | 0.0031 TFLOP/s/GPU |");
}

TEST(Throughput, PeaksAreKnownByTheNameThatCudaGives) {
  EXPECT_EQ(peak_tflops("NVIDIA H200"), 989.5);
  EXPECT_EQ(peak_tflops("NVIDIA H100 80GB HBM3"), 989.5);
  EXPECT_EQ(peak_tflops("NVIDIA H100 PCIe"), 756.0);
  EXPECT_EQ(peak_tflops("NVIDIA A100-SXM4-80GB"), 312.0);
  EXPECT_EQ(peak_tflops("NVIDIA GH200 480GB"), 989.5);
  EXPECT_EQ(peak_tflops("NVIDIA H200 MIG 1g.18gb"), std::nullopt);
  EXPECT_EQ(peak_tflops("NVIDIA GeForce RTX 4090"), std::nullopt);
}

}  // namespace
}  // namespace meg::logging
