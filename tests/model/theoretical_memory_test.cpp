#include "libmeg/model/theoretical_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libmeg/model/rank_memory.h"
#include "tests/model/mixtures.h"

namespace meg::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

GptConfig gpt(int64_t num_layers, int64_t hidden_size, int64_t heads, int64_t seq_length,
              int64_t padded_vocab_size) {
  GptConfig config;
  config.num_layers = num_layers;
  config.hidden_size = hidden_size;
  config.ffn_hidden_size = 4 * hidden_size;
  config.num_attention_heads = heads;
  config.num_query_groups = heads;
  config.kv_channels = hidden_size / heads;
  config.seq_length = seq_length;
  config.padded_vocab_size = padded_vocab_size;
  return config;
}

TheoreticalMemory memory_of(const GptConfig& config, const TheoreticalMemoryOptions& options) {
  const auto memory = theoretical_memory(config, options);
  EXPECT_TRUE(memory.has_value()) << memory.error().message();
  return memory.has_value() ? *memory : TheoreticalMemory();
}

const TheoreticalMemoryOptions kSequenceParallelAndSelective = {
    .sequence_parallel = true, .recompute_granularity = RecomputeGranularity::kSelective};

TEST(TheoreticalMemory, AgreesWithMegatronForTwelveLayers) {
  const auto memory = memory_of(gpt(12, 768, 12, 512, 50304), {});
  EXPECT_EQ(memory.weight_and_optimizer_bytes, 2224917504.0);
  EXPECT_THAT(theoretical_memory_lines(memory, true),
              ElementsAre("Number of parameters in transformer block in billions:  0.08",
                          "Number of parameters in embedding layers in billions: 0.04",
                          "Total number of parameters in billions: 0.12",
                          "Number of parameters in most loaded shard in billions: 0.1236",
                          "Activation memory footprint per transformer layer (precise, without "
                          "SP): 12.8 MB",
                          "Theoretical memory footprints: weight and optimizer=2121.85 MB, "
                          "activation=213.42 MB, total=2335.26 MB"));
  EXPECT_EQ(memory.activation_bytes, 223783526.4);
}

TEST(TheoreticalMemory, BeforeCore15ItHasNoActivationsWithoutSequenceParallelism) {
  const auto memory = memory_of(gpt(12, 768, 12, 512, 50304), {.estimates_any_activations = false});
  EXPECT_FALSE(memory.activation_bytes.has_value());
  EXPECT_EQ(theoretical_memory_lines(memory, true).back(),
            "Theoretical memory footprints: weight and optimizer=2121.85 MB");
}

TEST(TheoreticalMemory, ActivationsWithoutSequenceParallelismAreMegatrons) {
  EXPECT_EQ(memory_of(gpt(24, 1024, 16, 1024, 50304), {.micro_batch_size = 8}).activation_bytes,
            8079242035.200001);
  const TheoreticalMemoryOptions pipeline = {
      .sizes = {.tensor_model_parallel_size = 2, .pipeline_model_parallel_size = 8},
      .micro_batch_size = 4,
      .num_microbatches = 4};
  EXPECT_EQ(memory_of(gpt(24, 1024, 16, 1024, 50432), pipeline).activation_bytes, 1180414771.2);
  GptConfig config = gpt(32, 4096, 32, 4096, 32000);
  config.ffn_hidden_size = 11008;
  const TheoreticalMemoryOptions interleaved = {
      .sizes = {.tensor_model_parallel_size = 4,
                .pipeline_model_parallel_size = 4,
                .virtual_pipeline_model_parallel_size = 2},
      .sequence_parallel = true};
  EXPECT_EQ(memory_of(config, interleaved).activation_bytes, 12498795724.800001);
}

TEST(TheoreticalMemory, AgreesWithMegatronFor345MOnFourTensorRanks) {
  const auto memory =
      memory_of(gpt(24, 1024, 16, 1024, 50688), {.sizes = {.tensor_model_parallel_size = 4}});
  EXPECT_THAT(theoretical_memory_lines(memory, false),
              ElementsAre("Theoretical memory footprints: weight and optimizer=1519.18 MB, "
                          "activation=432.35 MB, total=1951.53 MB"));
}

TEST(TheoreticalMemory, ActivationsWithoutRecomputationAreThoseOfTheTutorial) {
  // 34 b s h + 5 b s^2 a in each of the 24 layers, b = 8.
  const auto memory = memory_of(gpt(24, 1024, 16, 1024, 50304), {.micro_batch_size = 8});
  EXPECT_EQ(memory.layers_activation_bytes, 22951231488.0);
}

TEST(TheoreticalMemory, ActivationsOfALayerFollowTheTable) {
  const GptConfig config = gpt(24, 1024, 16, 1024, 50688);
  const double sbh = 1024.0 * 1024.0;
  const auto bytes = [&](RecomputeGranularity granularity, bool sequence_parallel) {
    return memory_of(config, {.sizes = {.tensor_model_parallel_size = 4},
                              .sequence_parallel = sequence_parallel,
                              .recompute_granularity = granularity})
               .layer_activation_bytes /
           sbh;
  };
  EXPECT_EQ(bytes(RecomputeGranularity::kNone, false), 10 + 24.0 / 4 + 5.0 * 16 / 4);
  EXPECT_EQ(bytes(RecomputeGranularity::kNone, true), 34.0 / 4 + 5.0 * 16 / 4);
  EXPECT_EQ(bytes(RecomputeGranularity::kSelective, false), 10 + 24.0 / 4);
  EXPECT_EQ(bytes(RecomputeGranularity::kSelective, true), 34.0 / 4);
  EXPECT_EQ(bytes(RecomputeGranularity::kFull, false), 2);
}

TEST(TheoreticalMemory, AgreesWithMegatronForSequenceParallelismAndSelectiveRecomputation) {
  TheoreticalMemoryOptions options = kSequenceParallelAndSelective;
  options.micro_batch_size = 8;
  const auto memory = memory_of(gpt(24, 1024, 16, 1024, 50304), options);
  EXPECT_EQ(memory.activation_bytes, 8535474176.0);
  const auto lines = theoretical_memory_lines(memory, true);
  EXPECT_THAT(lines, ::testing::Contains("Activation memory footprint per transformer layer: "
                                         "272.0 MB"));
  EXPECT_EQ(lines.back(),
            "Theoretical memory footprints: weight and optimizer=6069.97 MB, activation=8140.06 "
            "MB, total=14210.04 MB");
}

TEST(TheoreticalMemory, AShortPipelineHoldsFewerMicroBatches) {
  TheoreticalMemoryOptions options = kSequenceParallelAndSelective;
  options.sizes = {.tensor_model_parallel_size = 2, .pipeline_model_parallel_size = 8};
  options.micro_batch_size = 4;
  options.num_microbatches = 4;
  GptConfig config = gpt(24, 1024, 16, 1024, 50432);
  config.untie_embeddings_and_output_weights = true;
  const auto memory = memory_of(config, options);
  EXPECT_EQ(memory.weight_and_optimizer_bytes, 804632832.0);
  EXPECT_EQ(memory.activation_bytes, 864092160.0);
  EXPECT_EQ(memory.in_flight_microbatches, 4);
  EXPECT_THAT(theoretical_memory_lines(memory, true),
              ElementsAre("Number of parameters in transformer block in billions:  0.30",
                          "Number of parameters in embedding layers in billions: 0.10",
                          "Total number of parameters in billions: 0.41",
                          "Number of parameters in most loaded shard in billions: 0.0447",
                          "Number of parameters in other shards in billions: 0.0189",
                          "Activation memory footprint per transformer layer: 68.0 MB",
                          "Number of in-flight microbatches: 4",
                          "Theoretical memory footprints: weight and optimizer=767.36 MB, "
                          "activation=824.06 MB, total=1591.42 MB"));
}

TEST(TheoreticalMemory, AgreesWithMegatronForAnInterleavedPipelineWithGroupedQueries) {
  GptConfig config = gpt(32, 4096, 32, 4096, 32000);
  config.untie_embeddings_and_output_weights = true;
  config.swiglu = true;
  config.gated_linear_unit = true;
  config.ffn_hidden_size = 11008;
  config.num_query_groups = 8;
  TheoreticalMemoryOptions options = kSequenceParallelAndSelective;
  options.sizes = {.tensor_model_parallel_size = 4,
                   .pipeline_model_parallel_size = 4,
                   .virtual_pipeline_model_parallel_size = 2};
  options.use_distributed_optimizer = true;
  options.data_parallel_size = 8;
  const auto memory = memory_of(config, options);
  EXPECT_EQ(memory.weight_and_optimizer_bytes, 2904149760.0);
  EXPECT_EQ(memory.activation_bytes, 5328908288.0);
  EXPECT_EQ(memory.interleaved_schedule_memory_penalty, 1.375);
  EXPECT_EQ(memory.in_flight_microbatches, 6);
}

TEST(TheoreticalMemory, EveryGateHasItsRows) {
  GptConfig swiglu = gpt(2, 64, 4, 32, 128);
  swiglu.gated_linear_unit = swiglu.swiglu = true;
  GptConfig other = swiglu;
  other.swiglu = false;
  const double plain = memory_of(gpt(2, 64, 4, 32, 128), {}).transformer_block_parameters;
  EXPECT_EQ(memory_of(other, {}).transformer_block_parameters,
            memory_of(swiglu, {}).transformer_block_parameters);
  EXPECT_EQ(memory_of(other, {}).transformer_block_parameters, plain + 2 * 64 * 256);
}

TEST(TheoreticalMemory, AnRmsNormHasOneParameterAHiddenUnit) {
  const GptConfig layer_norm = gpt(2, 64, 4, 32, 128);
  GptConfig rms_norm = layer_norm;
  rms_norm.normalization = "RMSNorm";
  EXPECT_EQ(memory_of(layer_norm, {}).total_parameters - memory_of(rms_norm, {}).total_parameters,
            5 * 64);
}

TEST(TheoreticalMemory, CountsExpertsAsMegatronDoes) {
  const TheoreticalMemory memory = memory_of(test::mixtral_8x7b(), {});
  EXPECT_EQ(memory.weight_and_optimizer_bytes, 840631394304.0);
  EXPECT_EQ(theoretical_memory_lines(memory, false).back(),
            "Theoretical memory footprints: weight and optimizer=801688.57 MB, "
            "activation=18591.33 MB, total=820279.90 MB");
  const TheoreticalMemory of_ranks =
      memory_of(test::many_small_experts(),
                {.sizes = {.tensor_model_parallel_size = 2, .pipeline_model_parallel_size = 4},
                 .data_parallel_size = 8,
                 .use_distributed_optimizer = true});
  EXPECT_EQ(of_ranks.weight_and_optimizer_bytes, 34788314880.0);
  EXPECT_EQ(theoretical_memory_lines(of_ranks, true)[4],
            "Number of parameters in other shards in billions: 4.5729");
}

TEST(TheoreticalMemory, KeepsWhatTheExpertsOfATokenNeed) {
  GptConfig config = test::mixtral_8x7b();
  const TheoreticalMemoryOptions options = {.recompute_granularity =
                                                RecomputeGranularity::kSelective};
  // Without experts 10 + 8 + 4 x 3.5 bytes for each element of the hidden states.
  config.num_experts.reset();
  EXPECT_EQ(memory_of(config, options).layer_activation_bytes, 32.0 * 4096 * 4096);
  // With two of them twice the last, and each's input and output.
  EXPECT_EQ(memory_of(test::mixtral_8x7b(), options).layer_activation_bytes, 54.0 * 4096 * 4096);
}

TEST(TheoreticalMemory, WhatItCannotKnowIsNamed) {
  EXPECT_EQ(theoretical_memory(gpt(2, 64, 4, 32, 0), {}).error().message(),
            "theoretical memory: padded_vocab_size: expected 1 or more, found 0");
  EXPECT_EQ(theoretical_memory(gpt(2, 64, 4, 0, 128), {}).error().message(),
            "theoretical memory: seq_length: expected 1 or more, found 0");
  EXPECT_THAT(
      theoretical_memory(gpt(2, 64, 4, 32, 128), {.sizes = {.tensor_model_parallel_size = 3}})
          .error()
          .message(),
      HasSubstr("3"));
}

std::vector<RankMemory> ranks_of(const GptConfig& config, const TheoreticalMemoryOptions& options,
                                 const NumberFormats& formats = {.sixteen_bit = true,
                                                                 .widens_gradients = true}) {
  const auto stages = rank_memory(config, options, formats, memory_of(config, options));
  EXPECT_TRUE(stages.has_value()) << stages.status().message();
  return stages.has_value() ? *stages : std::vector<RankMemory>();
}

TEST(RankMemory, SumsTheParametersOfAStage) {
  GptConfig config = gpt(24, 1024, 16, 1024, 50432);
  config.max_position_embeddings = 1024;
  const TheoreticalMemoryOptions options = {
      .sizes = {.tensor_model_parallel_size = 2, .pipeline_model_parallel_size = 4},
      .data_parallel_size = 8,
      .use_distributed_optimizer = true};
  const auto stages = ranks_of(config, options);
  ASSERT_EQ(stages.size(), 4U);
  for (int64_t stage = 0; stage < 4; ++stage) {
    const RankMemory& rank = stages[static_cast<size_t>(stage)];
    // All sizes are multiples of 64 x 8: nothing is padded.
    EXPECT_EQ(rank.parameters, *parameter_count(config, options.sizes, stage));
    const auto parameters = static_cast<double>(rank.parameters);
    EXPECT_EQ(rank.parameter_bytes, 2 * parameters);
    EXPECT_EQ(rank.gradient_bytes, 4 * parameters);
    EXPECT_EQ(rank.optimizer_bytes, 12 * parameters / 8);
    EXPECT_EQ(rank.layers_in_flight, 6 * (4 - stage));
  }
}

TEST(RankMemory, RanksThatShareExpertsHaveTheirPartsOfThem) {
  GptConfig config = test::mixtral_8x7b();
  config.max_position_embeddings = 4096;
  TheoreticalMemoryOptions options = {.sizes = {.tensor_model_parallel_size = 2},
                                      .data_parallel_size = 8,
                                      .use_distributed_optimizer = true};
  const double experts = 32.0 * 8 * 3 * 4096 * 14336;
  const auto others = static_cast<double>(*parameter_count(config, options.sizes)) - experts / 2;
  for (const auto& [ranks, split] : {std::pair<int64_t, int64_t>{4, 2}, {8, 1}, {2, 2}}) {
    options.sizes.expert_model_parallel_size = ranks;
    options.sizes.expert_tensor_parallel_size = split;
    const RankMemory rank = ranks_of(config, options).at(0);
    const double own = experts / static_cast<double>(ranks * split);
    EXPECT_EQ(static_cast<double>(rank.parameters), others + own);
    EXPECT_EQ(rank.gradient_bytes, 4 * (others + own));
    // Of 16 ranks each has an expert's share once, however it is cut.
    EXPECT_EQ(rank.optimizer_bytes, 12 * (others / 8 + experts / 16));
  }
  options.sizes.expert_model_parallel_size = 8;
  options.sizes.expert_tensor_parallel_size = 4;
  EXPECT_EQ(rank_memory(config, options, {}, memory_of(config, options)).error().message(),
            "expert_model_parallel_size 8 x expert_tensor_parallel_size 4: expected a divisor of "
            "16, the tensor-parallel x the data-parallel size");
}

TEST(RankMemory, FirstStageHasMegatronsMicroBatchesInFlight) {
  GptConfig config = gpt(32, 64, 4, 64, 128);
  config.max_position_embeddings = 64;
  for (const int64_t chunks : {1, 2, 4}) {
    TheoreticalMemoryOptions options = kSequenceParallelAndSelective;
    options.sizes = {.pipeline_model_parallel_size = 4,
                     .virtual_pipeline_model_parallel_size = chunks};
    const double penalty =
        memory_of(config, options).interleaved_schedule_memory_penalty.value_or(1);
    EXPECT_EQ(static_cast<double>(ranks_of(config, options)[0].layers_in_flight), 32 * penalty);
    options.num_microbatches = 1;
    for (const RankMemory& rank : ranks_of(config, options)) EXPECT_EQ(rank.layers_in_flight, 8);
  }
}

TEST(RankMemory, UnevenStagesHoldTheirOwnLayers) {
  GptConfig config = gpt(8, 64, 4, 64, 128);
  config.max_position_embeddings = 64;
  const auto layers = [&](ParallelSizes sizes) {
    TheoreticalMemoryOptions options;
    options.sizes = std::move(sizes);
    std::vector<int64_t> found;
    for (const RankMemory& rank : ranks_of(config, options)) {
      found.push_back(rank.layers_in_flight);
    }
    return found;
  };
  EXPECT_EQ(layers({.pipeline_model_parallel_size = 3,
                    .split = {.decoder_first_pipeline_num_layers = 2}}),
            (std::vector<int64_t>{3 * 2, 2 * 3, 3}));
  EXPECT_EQ(layers({.pipeline_model_parallel_size = 4,
                    .split = {.pipeline_model_parallel_layout = "E|t*3|t*5|L"}}),
            (std::vector<int64_t>{0, 3 * 3, 2 * 5, 0}));
  // Stage 0 begins passes 0 0 1 1 0 of chunks of 1 and 3 layers; then each brings one of chunk 1 or
  // 0 back before the next.
  EXPECT_EQ(layers({.pipeline_model_parallel_size = 2,
                    .virtual_pipeline_model_parallel_size = 2,
                    .split = {.pipeline_model_parallel_layout = "Et|t|ttt|tttL"}})[0],
            9);
}

}  // namespace
}  // namespace meg::model
