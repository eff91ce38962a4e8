#include "libmeg/model/hugging_face_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "libmeg/model/parameter_count.h"

namespace meg::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

GptConfig llama_config() {
  GptConfig config;
  config.num_layers = 2;
  config.hidden_size = 12;
  config.ffn_hidden_size = 10;
  config.num_attention_heads = 6;
  config.kv_channels = 4;
  config.num_query_groups = 2;
  config.padded_vocab_size = 7;
  config.position_embedding_type = "rope";
  config.normalization = "RMSNorm";
  config.swiglu = config.gated_linear_unit = true;
  config.add_bias_linear = false;
  config.add_qkv_bias = config.qk_layernorm = true;
  config.untie_embeddings_and_output_weights = true;
  return config;
}

GptConfig gpt2_config() {
  GptConfig config;
  config.num_layers = 2;
  config.hidden_size = 12;
  config.ffn_hidden_size = 48;
  config.num_attention_heads = config.num_query_groups = 3;
  config.kv_channels = 4;
  config.padded_vocab_size = 7;
  config.max_position_embeddings = 5;
  return config;
}

int64_t product(const std::vector<int64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

const HuggingFaceTensor& find(const std::vector<HuggingFaceTensor>& tensors,
                              const std::string& name) {
  return *std::find_if(tensors.begin(), tensors.end(),
                       [&](const HuggingFaceTensor& tensor) { return tensor.name == name; });
}

/// Counts how often a box holds each element of the merged parameter.
void count_box(const HuggingFaceTensor& tensor, const AxesBox& box, size_t axis, int64_t at,
               std::vector<int>* counts) {
  if (axis == tensor.axes.size()) {
    ++(*counts)[static_cast<size_t>(at)];
    return;
  }
  for (int64_t i = 0; i < box.sizes[axis]; ++i) {
    count_box(tensor, box, axis + 1, at * tensor.axes[axis] + box.offsets[axis] + i, counts);
  }
}

TEST(HuggingFaceNames, TensorsHoldEveryElementOfEveryParameterOnce) {
  GptConfig phi3 = llama_config();
  phi3.add_qkv_bias = phi3.qk_layernorm = false;
  GptConfig gemma = phi3;
  gemma.post_layernorm = true;
  GptConfig neox = gpt2_config();
  neox.position_embedding_type = "rope";
  neox.untie_embeddings_and_output_weights = true;
  for (const auto& [family, config] :
       {std::pair(HuggingFaceFamily::kLlama, llama_config()),
        std::pair(HuggingFaceFamily::kGpt2, gpt2_config()),
        std::pair(HuggingFaceFamily::kPhi3, phi3), std::pair(HuggingFaceFamily::kPostNorm, gemma),
        std::pair(HuggingFaceFamily::kStarcoder2, neox),
        std::pair(HuggingFaceFamily::kGptNeox, neox),
        std::pair(HuggingFaceFamily::kFalcon, neox)}) {
    const auto tensors = hugging_face_tensors(family, config);
    ASSERT_TRUE(tensors.has_value()) << tensors.error().message();
    std::map<std::string, std::vector<int>> counts;
    for (const HuggingFaceTensor& tensor : *tensors) {
      int64_t elements = 0;
      for (const AxesBox& box : tensor.boxes) elements += product(box.sizes);
      EXPECT_EQ(product(tensor.shape), elements) << tensor.name;
      auto& of = counts[tensor.parameter];
      of.resize(static_cast<size_t>(product(tensor.axes)));
      for (const AxesBox& box : tensor.boxes) count_box(tensor, box, 0, 0, &of);
    }
    const auto parameters = model_parameters(config);
    size_t expected = 0;
    for (const ModelParameter& parameter : *parameters) {
      const int64_t layers = parameter.placement == Placement::kLayer ? config.num_layers : 1;
      for (int64_t layer = 0; layer < layers; ++layer, ++expected) {
        const std::string name = with_layer(parameter.canonical, layer);
        ASSERT_TRUE(counts.contains(name)) << name;
        EXPECT_EQ(counts[name], std::vector<int>(static_cast<size_t>(product(parameter.shape)), 1))
            << name;
      }
    }
    EXPECT_EQ(counts.size(), expected);
  }
}

TEST(HuggingFaceNames, LlamaHasPartsOfGroupsAndHalvesOfGates) {
  const auto tensors = hugging_face_tensors(HuggingFaceFamily::kLlama, llama_config());
  ASSERT_TRUE(tensors.has_value()) << tensors.error().message();
  const HuggingFaceTensor& query = find(*tensors, "model.layers.1.self_attn.q_proj.weight");
  EXPECT_EQ(query.parameter, "decoder.layers.1.self_attention.linear_qkv.weight");
  EXPECT_THAT(query.shape, ElementsAre(24, 12));
  EXPECT_THAT(query.axes, ElementsAre(2, 5, 4, 12));
  EXPECT_THAT(query.boxes[0].sizes, ElementsAre(2, 3, 4, 12));
  const HuggingFaceTensor& value = find(*tensors, "model.layers.0.self_attn.v_proj.bias");
  EXPECT_THAT(value.shape, ElementsAre(8));
  EXPECT_THAT(value.boxes[0].offsets, ElementsAre(0, 4, 0));
  EXPECT_THAT(value.boxes[0].sizes, ElementsAre(2, 1, 4));
  const HuggingFaceTensor& up = find(*tensors, "model.layers.0.mlp.up_proj.weight");
  EXPECT_THAT(up.shape, ElementsAre(10, 12));
  EXPECT_THAT(up.boxes[0].offsets, ElementsAre(1, 0, 0));
  EXPECT_THAT(find(*tensors, "model.layers.0.self_attn.q_norm.weight").shape, ElementsAre(4));
  EXPECT_EQ(tensors->front().name, "model.embed_tokens.weight");
  EXPECT_EQ(tensors->back().name, "lm_head.weight");
}

TEST(HuggingFaceNames, Gpt2StacksQueriesKeysAndValuesAndTransposesMatrices) {
  const auto tensors = hugging_face_tensors(HuggingFaceFamily::kGpt2, gpt2_config());
  ASSERT_TRUE(tensors.has_value()) << tensors.error().message();
  const HuggingFaceTensor& attention = find(*tensors, "transformer.h.1.attn.c_attn.weight");
  EXPECT_TRUE(attention.is_transposed);
  EXPECT_THAT(attention.shape, ElementsAre(12, 36));
  EXPECT_THAT(attention.axes, ElementsAre(3, 3, 4, 12));
  ASSERT_EQ(attention.boxes.size(), 3);
  EXPECT_THAT(attention.boxes[1].offsets, ElementsAre(0, 1, 0, 0));
  EXPECT_THAT(attention.boxes[1].sizes, ElementsAre(3, 1, 4, 12));
  const HuggingFaceTensor& bias = find(*tensors, "transformer.h.1.attn.c_attn.bias");
  EXPECT_FALSE(bias.is_transposed);
  EXPECT_EQ(bias.boxes.size(), 3);
  EXPECT_THAT(find(*tensors, "transformer.h.0.mlp.c_fc.weight").shape, ElementsAre(12, 48));
  EXPECT_FALSE(find(*tensors, "transformer.wte.weight").is_transposed);
}

TEST(HuggingFaceNames, NamesTheParameterThatAFamilyLacks) {
  GptConfig config = gpt2_config();
  config.qk_layernorm = true;
  const auto tensors = hugging_face_tensors(HuggingFaceFamily::kGpt2, config);
  ASSERT_FALSE(tensors.has_value());
  EXPECT_EQ(tensors.error().code(), StatusCode::kUnsupported);
  EXPECT_THAT(tensors.error().message(), HasSubstr("q_layernorm.weight"));
}

}  // namespace
}  // namespace meg::model
