#include "libmeg/nn/gpt_model.h"

#include <c10/core/GradMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "libmeg/model/parameter_count.h"
#include "tests/nn/small_model.h"

namespace meg::nn {
namespace {

using test::small_config;
using test::small_llama_config;
using test::small_model;
using test::small_tokens;
using ::testing::HasSubstr;

/// GPT-345M and the 12-layer model, as the issue counts them.
model::GptConfig tutorial_config(int64_t layers, int64_t hidden, int64_t positions) {
  model::GptConfig config;
  config.num_layers = layers;
  config.hidden_size = hidden;
  config.ffn_hidden_size = 4 * hidden;
  config.num_attention_heads = config.num_query_groups = hidden / 64;
  config.kv_channels = 64;
  config.max_position_embeddings = config.seq_length = positions;
  config.padded_vocab_size = 50304;
  return config;
}

TEST(GptModelTest, TutorialModelsHaveMegatronsParameterCounts) {
  GptOptions options;
  options.device = at::kMeta;
  const auto large = GptModel::create(tutorial_config(24, 1024, 1024), options);
  ASSERT_TRUE(large.has_value()) << large.error().message();
  EXPECT_EQ(large->parameter_count(), 354871296);
  const auto small = GptModel::create(tutorial_config(12, 768, 512), options);
  ASSERT_TRUE(small.has_value()) << small.error().message();
  EXPECT_EQ(small->parameter_count(), 124082688);
}

TEST(GptModelTest, ParametersFollowTheFamilysOrder) {
  GptOptions options;
  options.family = model::NameFamily::kLegacy;
  const GptModel legacy = small_model(small_config(), options);
  EXPECT_EQ(legacy.parameters()[4].name, "decoder.layers.0.self_attention.linear_qkv.weight");
  EXPECT_TRUE(legacy.parameters()[4].weight_decay);
  const GptModel mcore = small_model(small_config());
  EXPECT_EQ(mcore.parameters()[4].name, "decoder.layers.0.self_attention.linear_proj.weight");
  EXPECT_FALSE(mcore.parameters()[5].weight_decay) << "a bias";
  for (const GptParameter& parameter : mcore.parameters()) {
    EXPECT_TRUE(parameter.tensor.is_leaf() && parameter.tensor.requires_grad());
  }
}

TEST(GptModelTest, EvaluationDropsNothing) {
  GptOptions options;
  options.hidden_dropout = options.attention_dropout = 0.5;
  GptModel model = small_model(small_config(), options);
  GptOptions without = options;
  without.hidden_dropout = without.attention_dropout = 0;
  GptModel plain = small_model(small_config(), without);
  model.set_training(false);
  const GptInput input = {.tokens = small_tokens(small_config())};
  EXPECT_TRUE(at::allclose(*model.logits(input), *plain.logits(input)));
  model.set_training(true);
  EXPECT_FALSE(at::allclose(*model.logits(input), *plain.logits(input)));
}

TEST(GptModelTest, NoTokenSeesThoseBehindIt) {
  for (const model::GptConfig& config : {small_config(), small_llama_config()}) {
    GptModel model = small_model(config);
    model.set_training(false);
    const c10::NoGradGuard without_gradients;
    const at::Tensor tokens = small_tokens(config);
    at::Tensor changed = tokens.clone();
    changed.narrow(1, 6, 6).zero_();
    const at::Tensor before = *model.logits({.tokens = tokens});
    const at::Tensor after = *model.logits({.tokens = changed});
    EXPECT_TRUE(at::allclose(before.narrow(1, 0, 6), after.narrow(1, 0, 6)));
    EXPECT_FALSE(at::allclose(before.narrow(1, 6, 6), after.narrow(1, 6, 6)));
  }
}

TEST(GptModelTest, ChosenRowsAreThoseOfAllHiddenStates) {
  for (const model::GptConfig& config : {small_config(), small_llama_config()}) {
    GptModel model = small_model(config);
    model.set_training(false);
    const at::Tensor tokens = small_tokens(config);
    const at::Tensor all = *model.hidden_states({.tokens = tokens});
    const at::Tensor rows = at::tensor(std::vector<int64_t>{23, 0, 11, 11});
    const auto chosen = model.hidden_states({.tokens = tokens, .rows = rows});
    ASSERT_TRUE(chosen.has_value()) << chosen.error().message();
    EXPECT_TRUE(at::allclose(*chosen, all.flatten(0, 1).index_select(0, rows).unsqueeze(0)));
    EXPECT_THAT(model.hidden_states({.tokens = tokens, .rows = rows + 1}).error().message(),
                HasSubstr("rows: expected 0 to 23, found 24"));
    EXPECT_THAT(model.hidden_states({.tokens = tokens, .rows = all}).error().message(),
                HasSubstr("rows: expected Long [n]"));
  }
}

TEST(GptModelTest, BackendsAndMasksAgree) {
  for (const model::GptConfig& config : {small_config(), small_llama_config()}) {
    const at::Tensor tokens = small_tokens(config);
    const at::Tensor causal =
        at::ones({1, 1, config.seq_length, config.seq_length}, at::kBool).triu(1);
    GptOptions options;
    options.hidden_dropout = options.attention_dropout = 0;
    GptModel model = small_model(config, options);
    const at::Tensor expected = *model.logits({.tokens = tokens});
    GptInput masked = {.tokens = tokens};
    masked.attention_mask = causal;
    EXPECT_TRUE(at::allclose(*model.logits(masked), expected, 1e-5, 1e-6));
    for (const bool scaling : {false, true}) {
      options.attention_backend = AttentionBackend::kUnfused;
      options.apply_query_key_layer_scaling = scaling;
      GptModel unfused = small_model(config, options);
      EXPECT_TRUE(at::allclose(*unfused.logits({.tokens = tokens}), expected, 1e-5, 1e-6));
      EXPECT_TRUE(at::allclose(*unfused.logits(masked), expected, 1e-5, 1e-6));
    }
  }
}

/// [b, 1, s, s], true where a token is of another document or later.
at::Tensor mask_of_documents(const std::vector<std::vector<int64_t>>& samples, int64_t s) {
  std::vector<at::Tensor> masks;
  for (const std::vector<int64_t>& lengths : samples) {
    at::Tensor mask = at::ones({s, s}, at::kBool);
    int64_t begin = 0;
    for (const int64_t length : lengths) {
      mask.narrow(0, begin, length).narrow(1, begin, length).triu_(1);
      begin += length;
    }
    masks.push_back(mask.unsqueeze(0));
  }
  return at::stack(masks);
}

TEST(GptModelTest, TokensAttendToTheirOwnDocumentAlone) {
  for (const model::GptConfig& config : {small_config(), small_llama_config()}) {
    const at::Tensor tokens = small_tokens(config);
    ASSERT_EQ(tokens.sizes(), at::IntArrayRef({2, 12}));
    GptInput masked = {.tokens = tokens}, divided = {.tokens = tokens}, whole = {.tokens = tokens};
    masked.attention_mask = mask_of_documents({{3, 1, 8}, {12}}, 12);
    divided.document_lengths = at::tensor(std::vector<int64_t>{3, 1, 8, 12});
    whole.document_lengths = at::tensor(std::vector<int64_t>{12, 12});
    for (const AttentionBackend backend : {AttentionBackend::kAuto, AttentionBackend::kUnfused}) {
      GptOptions options;
      options.hidden_dropout = options.attention_dropout = 0;
      options.attention_backend = backend;
      options.recompute_granularity = RecomputeGranularity::kSelective;
      GptModel model = small_model(config, options);
      const at::Tensor expected = *model.logits(masked);
      EXPECT_FALSE(at::allclose(*model.logits({.tokens = tokens}), expected, 1e-5, 1e-6));
      EXPECT_TRUE(at::allclose(*model.logits(divided), expected, 1e-5, 1e-6));
      EXPECT_TRUE(at::equal(*model.logits(whole), *model.logits({.tokens = tokens})));
      const auto gradient = [&](const GptInput& input) {
        const at::Tensor weight = model.parameters()[0].tensor;
        weight.mutable_grad().reset();
        (*model.logits(input)).square().sum().backward();
        return weight.grad().clone();
      };
      // Elements in which large terms cancel differ by more on some processors.
      const at::Tensor wanted = gradient(masked);
      const at::Tensor difference = gradient(divided) - wanted;
      EXPECT_LT(difference.norm().item<double>(), 1e-5 * wanted.norm().item<double>());
    }
  }
}

TEST(GptModelTest, RefusesDocumentsThatDoNotFillTheSamples) {
  const model::GptConfig config = small_config();
  GptModel model = small_model(config);
  const auto says = [&](const at::Tensor& lengths, const char* message) {
    GptInput input = {.tokens = small_tokens(config)};
    input.document_lengths = lengths;
    EXPECT_THAT(model.logits(input).error().message(), HasSubstr(message));
  };
  says(at::tensor(std::vector<int64_t>{12, 11}), "expected 24 tokens in all, found 23");
  says(at::tensor(std::vector<int64_t>{11, 13}), "expected 1 to 1 after 11 tokens, found 13");
  says(at::tensor(std::vector<int64_t>{12, 0, 12}), "expected 1 to 12 after 12 tokens, found 0");
  says(at::tensor(std::vector<float>{12, 12}), "document_lengths: expected Long [n], on the CPU");
}

/// The gradients of the embedding and of the output layer, the same tensor if they are tied, of
/// losses times `factor`. shift: of the labels.
std::pair<at::Tensor, at::Tensor> embedding_gradients(bool untie, int64_t shift, double factor) {
  model::GptConfig config = small_config();
  config.untie_embeddings_and_output_weights = untie;
  GptOptions options;
  options.params_dtype = at::kHalf;
  options.hidden_dropout = options.attention_dropout = 0;
  GptModel model = small_model(config, options);
  const auto find = [&](std::string_view name) {
    const auto found = std::ranges::find(model.parameters(), name, &GptParameter::name);
    return found == model.parameters().end() ? at::Tensor() : found->tensor;
  };
  const at::Tensor embedding = find("embedding.word_embeddings.weight");
  const at::Tensor output = find("output_layer.weight");
  if (untie) output.detach().copy_(embedding.detach());
  const at::Tensor tokens = small_tokens(config);
  const auto found = model.loss_and_gradients({.tokens = tokens}, tokens.roll(-shift, 1),
                                              at::full(tokens.sizes(), factor, at::kFloat));
  EXPECT_TRUE(found.has_value()) << found.status().message();
  return {embedding.grad(), untie ? output.grad() : embedding.grad()};
}

/// As in Megatron without gradient accumulation fusion, near overflow too.
TEST(GptModelTest, GradientsOfTiedEmbeddingsAreAddedIn16Bits) {
  const auto is_finite = [](const at::Tensor& tensor) {
    return tensor.isfinite().all().item<bool>();
  };
  int overflows = 0;
  for (int64_t shift = 1; shift < 12; ++shift) {
    const auto [small, small_output] = embedding_gradients(/*untie=*/true, shift, 1);
    const double largest = at::maximum(small.abs().max(), small_output.abs().max()).item<double>();
    for (const double factor : {1.0, 65000 / largest}) {
      const auto [of_embedding, of_output] = embedding_gradients(/*untie=*/true, shift, factor);
      if (!is_finite(of_embedding) || !is_finite(of_output)) continue;
      const at::Tensor sum = of_embedding + of_output;
      EXPECT_TRUE(at::equal(embedding_gradients(/*untie=*/false, shift, factor).first, sum));
      overflows += is_finite(sum) ? 0 : 1;
    }
  }
  EXPECT_GT(overflows, 0);
}

TEST(GptModelTest, HeadsMayHaveNormsAndAnySize) {
  model::GptConfig config = small_llama_config();
  config.kv_channels = 6;  // 4 heads of 6 beside a hidden size of 16
  config.qk_layernorm = true;
  for (const char* normalization : {"LayerNorm", "RMSNorm"}) {
    config.normalization = normalization;
    GptOptions options;
    options.hidden_dropout = options.attention_dropout = 0;
    GptModel model = small_model(config, options);
    const GptInput input = {.tokens = small_tokens(config)};
    const at::Tensor before = *model.logits(input);
    // A norm takes the size out of what it is given, so rows of queries may grow.
    for (const GptParameter& parameter : model.parameters()) {
      if (!parameter.name.ends_with("linear_qkv.weight")) continue;
      const c10::NoGradGuard without_gradients;
      at::Tensor queries = parameter.tensor.view({2, 4, 6, 16}).narrow(1, 0, 2);
      queries.mul_(8);
    }
    EXPECT_TRUE(at::allclose(*model.logits(input), before, 1e-3, 1e-3)) << normalization;
  }
}

TEST(GptModelTest, NormsStoredLessOneAreTheSameNorms) {
  GptOptions options;
  options.hidden_dropout = options.attention_dropout = 0;
  model::GptConfig normed = small_llama_config();
  normed.qk_layernorm = true;
  for (const model::GptConfig& config : {small_config(), normed}) {
    GptModel plain = small_model(config, options);
    options.apply_layernorm_1p = true;
    GptModel less_one = small_model(config, options);
    options.apply_layernorm_1p = false;
    for (size_t i = 0; i < plain.parameters().size(); ++i) {
      const GptParameter& parameter = plain.parameters()[i];
      if (!parameter.name.ends_with("layernorm.weight")) continue;
      const c10::NoGradGuard without_gradients;
      at::Tensor weight = parameter.tensor, stored = less_one.parameters()[i].tensor;
      weight.copy_(at::linspace(0.5, 2, weight.size(0)));
      stored.copy_(weight - 1);
    }
    const GptInput input = {.tokens = small_tokens(config)};
    EXPECT_TRUE(at::allclose(*less_one.logits(input), *plain.logits(input), 1e-5, 1e-6));
  }
}

TEST(GptModelTest, SquaredReluIsItsDefinition) {
  // With neither attention nor positions, one layer and an MLP whose matrices are the unit matrix,
  // a token's hidden state is h + relu(norm(h))^2.
  model::GptConfig config = small_config();
  config.num_layers = 1;
  config.ffn_hidden_size = config.hidden_size;
  config.add_bias_linear = false;
  config.position_embedding_type = "none";
  GptOptions options;
  options.squared_relu = true;
  GptModel model = small_model(config, options);
  model.set_training(false);
  const c10::NoGradGuard without_gradients;
  for (const GptParameter& parameter : model.parameters()) {
    at::Tensor tensor = parameter.tensor;
    if (parameter.name.ends_with("linear_proj.weight")) tensor.zero_();
    if (parameter.name.find("mlp.linear_fc") != std::string::npos) tensor.copy_(at::eye(16));
  }
  const at::Tensor embedded = model.parameters()[0].tensor[3];
  const auto norm = [](const at::Tensor& state) { return at::layer_norm(state, {16}); };
  const at::Tensor expected = norm(embedded + at::relu(norm(embedded)).pow(2));
  const at::Tensor found = *model.hidden_states({.tokens = at::full({1, 1}, 3, at::kLong)});
  EXPECT_TRUE(at::allclose(found[0][0], expected, 1e-5, 1e-6));
}

TEST(GptModelTest, Fp32ResidualsGoFromStageToStage) {
  for (const model::GptConfig& config : {small_config(), small_llama_config()}) {
    model::GptConfig even = config;
    even.num_layers = 4;
    GptOptions options;
    options.params_dtype = at::kBFloat16;
    options.fp32_residual_connection = true;
    options.hidden_dropout = options.attention_dropout = 0.1;
    options.recompute_granularity = model::RecomputeGranularity::kFull;
    ModelPart part;
    part.sizes.pipeline_model_parallel_size = 2;
    GptModel first = small_model(even, options, part);
    part.pipeline_rank = 1;
    GptModel last = small_model(even, options, part);
    const at::Tensor tokens = small_tokens(even);
    const at::Tensor sent = *first.hidden_states({.tokens = tokens});
    EXPECT_EQ(sent.scalar_type(), at::kFloat);
    const at::Tensor received = sent.detach().requires_grad_(true);
    GptInput input;
    input.hidden_states = received;
    const at::Tensor states = *last.hidden_states(input);
    EXPECT_EQ(states.scalar_type(), at::kBFloat16) << "behind the final norm";
    last.loss(input, tokens)->mean().backward();
    EXPECT_EQ(received.grad().scalar_type(), at::kFloat);
    EXPECT_EQ(last.parameters()[0].tensor.grad().scalar_type(), at::kBFloat16);
    input.hidden_states = received.to(at::kBFloat16);
    EXPECT_THAT(last.hidden_states(input).status().message(), HasSubstr("expected Float [b, s"));
  }
}

TEST(GptModelTest, SixteenBitModelsGiveFp32LogitsAndLosses) {
  for (const at::ScalarType dtype : {at::kHalf, at::kBFloat16}) {
    GptOptions options;
    options.params_dtype = dtype;
    GptModel model = small_model(small_config(), options);
    const at::Tensor tokens = small_tokens(small_config());
    EXPECT_EQ(model.logits({.tokens = tokens})->scalar_type(), at::kFloat);
    const at::Tensor loss = *model.loss({.tokens = tokens}, tokens);
    EXPECT_EQ(loss.scalar_type(), at::kFloat);
    loss.sum().backward();
    EXPECT_EQ(model.parameters()[0].tensor.grad().scalar_type(), dtype);
  }
}

/// Two stages, the hidden states and their gradient carried between them by hand.
TEST(GptModelTest, PipelineStagesComputeTheWholeModel) {
  model::GptConfig config = small_config();
  config.num_layers = 4;
  GptOptions options;
  options.hidden_dropout = options.attention_dropout = 0;
  GptModel whole = small_model(config, options);
  ModelPart part;
  part.sizes.pipeline_model_parallel_size = 2;
  GptModel first = small_model(config, options, part);
  part.pipeline_rank = 1;
  GptModel last = small_model(config, options, part);
  const at::Tensor tokens = small_tokens(config);
  const at::Tensor labels = tokens.roll(-1, 1);
  const at::Tensor expected = *whole.loss({.tokens = tokens}, labels);
  expected.sum().backward();

  const at::Tensor sent = *first.hidden_states({.tokens = tokens});
  const at::Tensor received = sent.detach().requires_grad_(true);
  GptInput input;
  input.hidden_states = received;
  const at::Tensor loss = *last.loss(input, labels);
  EXPECT_TRUE(at::equal(loss, expected));
  loss.sum().backward();
  sent.backward(received.grad());
  // The tied embedding's gradient is the sum of the first stage's and the copy's.
  EXPECT_TRUE(at::allclose(
      first.parameters().front().tensor.grad() + last.parameters().back().tensor.grad(),
      whole.parameters().front().tensor.grad(), 1e-5, 1e-6));
  EXPECT_TRUE(at::equal(first.parameters()[2].tensor.grad(), whole.parameters()[2].tensor.grad()));
  EXPECT_FALSE(first.logits({.tokens = tokens}).has_value());
}

TEST(GptModelTest, NamesWhatDoesNotFit) {
  GptModel model = small_model(small_config());
  const at::Tensor tokens = small_tokens(small_config());
  const auto says = [&](const GptInput& input, const at::Tensor& labels, const char* text) {
    const auto loss = model.loss(input, labels);
    ASSERT_FALSE(loss.has_value());
    EXPECT_THAT(loss.error().message(), HasSubstr(text));
  };
  says({}, tokens, "tokens: expected Long [b, s], found nothing");
  says({.tokens = tokens.to(at::kInt)}, tokens, "tokens: expected Long [b, s], found Int [2, 12]");
  says({.tokens = at::cat({tokens, tokens}, 1)}, tokens,
       "expected at most max_position_embeddings 12 in a sequence, found 24");
  says({.tokens = tokens}, tokens.view({-1}), "labels: expected Long [2, 12], found Long [24]");
  GptInput input = {.tokens = tokens};
  input.attention_mask = at::ones({12, 12}, at::kBool);
  says(input, tokens, "attention_mask: expected Bool [2, 1, 12, 12], found Bool [12, 12]");
}

TEST(GptModelTest, NamesNumbersOutsideTheirTables) {
  GptModel model = small_model(small_config());
  const at::Tensor tokens = small_tokens(small_config());
  at::Tensor large = tokens.clone();
  large[1][3] = 24;
  at::Tensor negative = tokens.clone();
  negative[0][0] = -1;
  const auto error = [&](const GptInput& input, const at::Tensor& labels) {
    const auto loss = model.loss(input, labels);
    EXPECT_EQ(loss.status().code(), StatusCode::kOutOfRange);
    return loss.status().message();
  };
  EXPECT_EQ(error({.tokens = large}, tokens), "tokens: expected 0 to 23, found 24");
  EXPECT_EQ(error({.tokens = tokens}, negative), "labels: expected 0 to 23, found -1");
  EXPECT_EQ(error({.tokens = tokens, .position_ids = tokens}, tokens),
            "position_ids: expected 0 to 11, found 23");
}

TEST(GptModelTest, TheLossGoesBackwardOnce) {
  GptModel model = small_model(small_config());
  const at::Tensor tokens = small_tokens(small_config());
  const at::Tensor loss = model.loss({.tokens = tokens}, tokens)->mean();
  loss.backward({}, /*retain_graph=*/true);
  EXPECT_THROW(loss.backward(), c10::Error);
}

std::vector<at::Tensor> take_gradients(GptModel& model) {
  std::vector<at::Tensor> gradients;
  for (const GptParameter& parameter : model.parameters()) {
    at::Tensor tensor = parameter.tensor;
    gradients.push_back(tensor.grad());
    tensor.mutable_grad() = at::Tensor();
  }
  return gradients;
}

TEST(GptModelTest, LossAndGradientsAreThoseOfABackwardPass) {
  at::manual_seed(3);
  for (const at::ScalarType dtype : {at::kFloat, at::kHalf, at::kBFloat16}) {
    for (const model::GptConfig& config : {small_config(), small_llama_config()}) {
      GptOptions options;
      options.params_dtype = dtype;
      options.hidden_dropout = options.attention_dropout = 0;
      options.recompute_granularity = model::RecomputeGranularity::kFull;
      GptModel model = small_model(config, options);
      const at::Tensor tokens = small_tokens(config), labels = tokens.roll(-1, 1);
      const at::Tensor factors = at::rand({2, 12}) * at::randint(2, {2, 12}, at::kFloat);
      const at::Tensor losses = *model.loss({.tokens = tokens}, labels);
      (losses * factors).sum().backward();
      const std::vector<at::Tensor> expected = take_gradients(model);
      const auto found = model.loss_and_gradients({.tokens = tokens}, labels, factors);
      ASSERT_TRUE(found.has_value()) << found.error().message();
      EXPECT_TRUE(at::equal(*found, losses.detach()));
      const std::vector<at::Tensor> gradients = take_gradients(model);
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_TRUE(at::equal(gradients[i], expected[i])) << model.parameters()[i].name;
      }
    }
  }
}

TEST(GptModelTest, NamesFactorsThatDoNotFit) {
  GptModel model = small_model(small_config());
  const at::Tensor tokens = small_tokens(small_config());
  const auto says = [&](const at::Tensor& factors) {
    return model.loss_and_gradients({.tokens = tokens}, tokens, factors).status().message();
  };
  EXPECT_EQ(says({}), "grad_losses: expected Float [2, 12], found nothing");
  EXPECT_EQ(says(at::ones({24})), "grad_losses: expected Float [2, 12], found Float [24]");
  EXPECT_EQ(says(at::ones({2, 12}, at::kDouble)),
            "grad_losses: expected Float [2, 12], found Double [2, 12]");
}

TEST(GptModelTest, RefusesOptionsThatNoModuleKnows) {
  GptOptions options;
  options.hidden_dropout = 1;
  auto model = GptModel::create(small_config(), options);
  ASSERT_FALSE(model.has_value());
  EXPECT_EQ(model.error().message(), "hidden_dropout: expected 0 to less than 1, found 1");
  model::GptConfig config = small_config();
  config.position_embedding_type = "alibi";
  model = GptModel::create(config, {});
  ASSERT_FALSE(model.has_value());
  EXPECT_EQ(model.error().code(), StatusCode::kUnsupported);
}

TEST(GptModelTest, Bf16GradientsAreNearFp32s) {
  for (const model::GptConfig& config : {small_config(), small_llama_config()}) {
    for (uint64_t seed = 1; seed <= 8; ++seed) {
      GptOptions options;
      options.hidden_dropout = options.attention_dropout = 0;
      GptModel exact = small_model(config, options, {}, seed);
      options.params_dtype = at::kBFloat16;
      GptModel rounded = small_model(config, options, {}, seed);
      const double distance =
          test::gradient_distance(test::gradients_of(rounded), test::gradients_of(exact));
      EXPECT_LT(distance, test::kBf16GradientDistance) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace meg::nn
